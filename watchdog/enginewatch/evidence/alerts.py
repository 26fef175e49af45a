"""What rules found, as findings: an alert's labels and annotations become a verdict's parts.

Annotations that rules of `rules/diagnose` use:

```
summary, advice                 what is shown
fields: gpu:int missing=family  labels that are fields: name, type, and the label if it differs
derived_NAME: text              a derived field; true, false and null are what they say
explains, explained_by          verdicts or signatures beyond the table of verdicts
rules_out                       verdicts that this looks like and is not
```
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from enginewatch.evidence.fields import TYPES, Value
from enginewatch.evidence.incident import Finding
from enginewatch.evidence.pack import VerdictRule
from enginewatch.evidence.signatures import Confidence, Severity
from enginewatch.evidence.timeline import Judgement, Timeline
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Alert, Labels

_DERIVED: Final = "derived_"
_WORDS: Final[Mapping[str, Value]] = {"true": True, "false": False, "null": None}
_OF_FIELDS: Final = ("__name__", "of", "field", "as", "derived")
"""Labels of a field series that say what it is; the others say of which alert."""


def findings_of_alerts(
    judgement: Judgement, timeline: Timeline, verdicts: Mapping[str, VerdictRule]
) -> Iterator[Finding]:
    for alert, at in judgement.alerts:
        verdict = verdicts.get(alert.labels.get("verdict", ""))
        if verdict is None:
            continue
        read, derived = _fields(alert, judgement.fields)
        notes = alert.annotations
        summary = notes.get("summary", verdict.about)
        yield Finding(
            verdict=verdict.name,
            severity=_severity(alert, verdict),
            confidence=Confidence(alert.labels.get("confidence", Confidence.DEFINITE)),
            key=alert.name,
            summary=summary,
            advice=notes.get("advice", ""),
            fields=read,
            derived=derived,
            evidence=(timeline.place(alert, at) or Evidence(timeline.name, 0, summary),),
            explains=frozenset(notes.get("explains", "").split()),
            explained_by=frozenset(notes.get("explained_by", "").split()),
            rules_out=tuple(notes.get("rules_out", "").split()),
        )


def _severity(alert: Alert, verdict: VerdictRule) -> Severity:
    """The daemon's rules speak of pages and tickets, those for diagnosis in verdicts' own words."""
    written = alert.labels.get("severity", "")
    return Severity(written) if written in {*Severity} else verdict.severity


def _fields(
    alert: Alert, recorded: Sequence[tuple[Labels, float]]
) -> tuple[dict[str, Value], dict[str, Value]]:
    """What is read, and what is derived."""
    read = dict(_from_labels(alert))
    derived: dict[str, Value] = {}
    for labels, value in recorded:
        if labels.get("of") == alert.name and _agree(labels, alert.labels):
            into = derived if labels.get("derived") == "yes" else read
            into.setdefault(labels["field"], _typed(value, labels.get("as", "")))
    for name, text in alert.annotations.items():
        if name.startswith(_DERIVED):
            derived[name.removeprefix(_DERIVED)] = _WORDS.get(text, text)
    return read, derived


def _from_labels(alert: Alert) -> Iterator[tuple[str, Value]]:
    for word in alert.annotations.get("fields", "").split():
        name, _, label = word.partition("=")
        name, _, kind = name.partition(":")
        text = alert.labels.get(label or name)
        if text is None:
            continue
        try:
            yield name, TYPES[kind or "string"](text)
        except ValueError:
            yield name, text


def _agree(labels: Labels, others: Labels) -> bool:
    return all(
        others.get(name, value) == value for name, value in labels.items() if name not in _OF_FIELDS
    )


def _typed(value: float, kind: str) -> Value:
    if not math.isfinite(value):
        return None
    if kind == "bool":
        return value != 0
    if kind == "int":
        return round(value)
    # Sums and quotients of decimals carry the noise of binary fractions.
    short = float(f"{value:.10g}")
    return int(short) if short.is_integer() else short
