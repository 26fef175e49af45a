"""What a check learned, as a sample, with the place where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from enginewatch.evidence.verdict import Evidence


class Observed(NamedTuple):
    """One sample. Values are in base units; a label with an empty value is no label.

    `evidence` is what a finding on this sample shows. The judge keeps it by the label
    `line`, which it adds: a rule that aggregates must keep `line` (`max by (line, …)`),
    or its finding shows only its own summary.
    """

    name: str
    value: float
    labels: Mapping[str, str]
    evidence: Evidence | None = None


def observed(
    name: str, value: float = 1.0, evidence: Evidence | None = None, /, **labels: object
) -> Observed:
    """A sample, its labels written as text; None is no label.

    >>> observed("enginewatch_target_gpus", 8, gpu="B200").labels
    {'gpu': 'B200'}
    """
    given = {name: str(text) for name, text in labels.items() if text is not None}
    return Observed(name, float(value), given, evidence)
