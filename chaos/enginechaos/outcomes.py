"""What a test comes to: passed, failed, INCONCLUSIVE, an error, or skipped. And how it is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from enginechaos.errors import (
    ChaosError,
    Inconclusive,
    NotDelivered,
    NotDetected,
    Unexpected,
)
from enginechaos.journal import Record

VERDICTS: Final = (NotDetected, NotDelivered, Unexpected)
"""What the watchdog is to blame for; everything else that goes wrong is the run's."""

_STEPS: Final = ("detect", "deliver", "resolve")


def outcome_of(failure: BaseException) -> str | None:
    """`failed`, `inconclusive` or `error` for an exception of ours; None for any other."""
    if isinstance(failure, Inconclusive):
        return "inconclusive"
    if isinstance(failure, ChaosError):
        return "error"
    return "failed" if isinstance(failure, VERDICTS) else None


def table(records: Sequence[Record]) -> Iterator[str]:
    """The terminal's table: per hazard the seconds to detect, deliver and resolve."""
    rows: list[tuple[str, ...]] = [("hazard", "test", *_STEPS, "outcome")]
    for record in records:
        name = record.id.rpartition("::")[2]
        measured = record.measured
        figures, budget = (measured.figures, measured.budget) if measured else ({}, {})
        cells = [_cell(figures.get(step), budget.get(step)) for step in _STEPS]
        said = record.outcome.upper() if record.outcome == "inconclusive" else record.outcome
        rows.append((record.hazard, name, *cells, said))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(took: float | None, budget: float | None) -> str:
    if took is None:
        return "-"
    return f"{took:.1f} s" if budget is None else f"{took:.1f} of {budget:g} s"
