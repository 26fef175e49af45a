"""How much of a page is read before its target counts as hostile or broken."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from enginewatch.exposition.errors import PageError, shown
from enginewatch.model import METRIC_NAME, ScrapeFailure


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one page; 0 is no bound. Exceeding one fails the whole scrape, as in Prometheus.

    Prometheus leaves all of them off. The defaults here are ten times the largest
    page seen of any engine (four data-parallel ranks of vLLM: 161 KiB, 1,411 samples).
    """

    body_size: int = 10 * 1024 * 1024
    """Bytes of the page, after decompression."""
    line_length: int = 64 * 1024
    """Characters of one line."""
    lines: int = 200_000
    samples: int = 50_000
    """Sample lines, duplicates included."""
    labels: int = 128
    """Labels written on one series, its name counted as one; the target's own come on top."""
    label_name_length: int = 512
    label_value_length: int = 16 * 1024

    def check_body(self, size: int) -> None:
        if 0 < self.body_size < size:
            raise _exceeded("body_size_limit", self.body_size, f"the page has {size} bytes")

    def check_lines(self, count: int) -> None:
        if 0 < self.lines < count:
            raise _exceeded("line_limit", self.lines, f"the page has {count} lines")

    def check_line(self, length: int) -> None:
        if 0 < self.line_length < length:
            raise _exceeded("line_length_limit", self.line_length, f"a line of {length} characters")

    def check_samples(self, count: int) -> None:
        if 0 < self.samples < count:
            raise _exceeded("sample_limit", self.samples, "the page has more samples")

    @property
    def harmless(self) -> int:
        """A series written in no more characters than this is within all limits on labels.

        Five are the least that a label takes: `a="b"`.
        """
        bounds = (self.labels * 5, self.label_name_length, self.label_value_length)
        return min((bound for bound in bounds if bound > 0), default=sys.maxsize)

    def check_labels(self, name: str, pairs: Sequence[tuple[str, str]]) -> None:
        count = len(pairs) + 1
        if 0 < self.labels < count:
            raise _exceeded("label_limit", self.labels, f"a series with {count} labels")
        for label, value in ((METRIC_NAME, name), *pairs):
            if 0 < self.label_name_length < len(label):
                raise _exceeded(
                    "label_name_length_limit",
                    self.label_name_length,
                    f"label name {shown(label)} has {len(label)} characters",
                )
            if 0 < self.label_value_length < len(value):
                raise _exceeded(
                    "label_value_length_limit",
                    self.label_value_length,
                    f"the value of label {shown(label)} has {len(value)} characters",
                )


def _exceeded(limit: str, bound: int, found: str) -> PageError:
    return PageError(
        f"{found}, over the {limit} of {bound}",
        hint=f"raise {limit} of the job if this target can be trusted",
        reason=ScrapeFailure.TOO_LARGE,
    )


NO_LIMITS: Final = Limits(0, 0, 0, 0, 0, 0, 0)
