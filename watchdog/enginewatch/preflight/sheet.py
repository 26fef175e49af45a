"""A sum shown line by line, in bytes: what the memory check rests on, for people to check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Line(NamedTuple):
    """`amount` in bytes; `note` says how it came about (`80 layers x 8 heads x …`)."""

    what: str
    amount: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """`lines` add up to `total`. `limit` is what there is, where that is known; `remarks` are
    sentences below the sum (the largest batch that does fit)."""

    title: str
    lines: tuple[Line, ...]
    limit: Line | None = None
    remarks: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(line.amount for line in self.lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "lines": [line._asdict() for line in self.lines],
            "total": self.total,
            "limit": self.limit._asdict() if self.limit else None,
            "remarks": list(self.remarks),
        }
