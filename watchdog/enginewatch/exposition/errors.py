"""The one error of this package."""

from __future__ import annotations

from typing import Final

from enginewatch.errors import EnginewatchError

_SHOWN: Final = 60


class PageError(EnginewatchError):
    """A page that is not valid exposition text, or exceeds a limit; `where` is `line 17`."""

    def on_line(self, number: int, hint: str = "") -> PageError:
        """The same error, with its place, and a better hint if there is one."""
        return PageError(self.what, where=f"line {number}", hint=hint or self.hint)


def shown(text: str) -> str:
    """Text of a page as an error quotes it: one line, no control characters, not too long."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
