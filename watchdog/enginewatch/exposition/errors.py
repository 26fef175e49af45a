"""The one error of this package."""

from __future__ import annotations

from typing import Final

from enginewatch.errors import EnginewatchError
from enginewatch.model import ScrapeFailure

_SHOWN: Final = 60


class PageError(EnginewatchError):
    """A page that is not valid exposition text, or exceeds a limit; `where` is `line 17`."""

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        hint: str = "",
        reason: ScrapeFailure = ScrapeFailure.PARSE,
    ):
        super().__init__(what, where=where, hint=hint)
        self.reason: Final = reason

    def on_line(self, number: int, hint: str = "") -> PageError:
        """The same error, with its place, and a better hint if there is one."""
        place = f"line {number}"
        return PageError(self.what, where=place, hint=hint or self.hint, reason=self.reason)


def shown(text: str) -> str:
    """Text of a page as an error quotes it: one line, no control characters, not too long."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
