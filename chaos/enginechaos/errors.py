"""Everything the suite says no with.

ChaosError                one sentence, a place, a remedy
├── TargetError           a target file, or a target that can't be reached
├── Refused               production, a hazard that may not be induced, a second run
├── NotSteady             no steady state: the test is an error, and nothing was injected
├── Inconclusive          injected, and no evidence that it took effect: neither pass nor fail
├── Aborted               a limit was reached or a guarded signal left its bounds; undone
├── WatchdogError         the watchdog does not start, or does not answer
└── UndoError             an undo that can't be written, read or done

NotDetected, NotDelivered and Unexpected are AssertionErrors: the watchdog failed the test.
"""

from __future__ import annotations


class ChaosError(Exception):
    """What was found (`what`), where it stands (file, key), and what would be right (`hint`)."""

    def __init__(self, what: str, *, where: str = "", hint: str = ""):
        super().__init__(what, where, hint)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.hint})" if self.hint else text


class TargetError(ChaosError):
    pass


class Refused(ChaosError):  # noqa: N818 - it is what a person reads in the report
    pass


class NotSteady(ChaosError):  # noqa: N818
    pass


class Inconclusive(ChaosError):  # noqa: N818
    pass


class Aborted(ChaosError):  # noqa: N818
    pass


class WatchdogError(ChaosError):
    pass


class UndoError(ChaosError):
    pass


class NotDetected(AssertionError):  # noqa: N818
    """No alert of the verdict fired within its budget."""


class NotDelivered(AssertionError):  # noqa: N818
    """It fired, and a receiver did not hear of it as it should: late, wrong, twice, no resolve."""


class Unexpected(AssertionError):  # noqa: N818
    """A receiver heard of something that the test does not expect."""
