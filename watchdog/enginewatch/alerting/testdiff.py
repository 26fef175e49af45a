"""What a rule test expected beside what it got, as a person reads it: only what differs.

A line with `-` was expected and is not there, one with `+` is there and was not
expected; below an alert whose labels agree stand its annotations that do not.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from enginewatch.alerting.testfile import ExpectedAlert
from enginewatch.model import Alert, AlertState, Labels, Millis
from enginewatch.units import format_duration, format_float

_NEAR: Final = 3
"""How many alerts of the same name, in another state, are worth a line."""


def alert_difference(
    expected: Sequence[ExpectedAlert], found: Iterable[Alert], *, start: Millis = 0
) -> str:
    """`""` when the alerts of `found` that fire are those expected, in whatever order.

    Times are told as counted from `start`.
    """
    known = list(found)
    firing = _by_labels((a.labels, a.annotations) for a in known if a.state is AlertState.FIRING)
    wanted = _by_labels((each.labels, each.annotations) for each in expected)
    lines: list[str] = []
    for labels in sorted(wanted.keys() | firing.keys()):
        lines += _alerts_of(labels, wanted.get(labels, []), firing.get(labels, []))
    if lines:
        others = [a for a in known if a.state is not AlertState.FIRING and a.labels in wanted]
        lines += [_state(alert, start) for alert in others[:_NEAR]]
        if not firing and wanted:
            lines.append("nothing fires")
    return "\n".join(lines)


def _alerts_of(
    labels: Labels, wanted: list[Mapping[str, str]], firing: list[Mapping[str, str]]
) -> list[str]:
    """The lines on alerts of the same labels: pairs that are equal are left out first."""
    wanted, firing = _unpaired(wanted, firing), _unpaired(firing, wanted)
    lines: list[str] = []
    for ours, theirs in zip(wanted, firing, strict=False):
        lines.append(f"  {labels!r}")
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                lines += [f"-     {name}: {ours[name]!r}"] if name in ours else []
                lines += [f"+     {name}: {theirs[name]!r}"] if name in theirs else []
    both = min(len(wanted), len(firing))
    lines += [f"- {labels!r}" for _ in wanted[both:]]
    for notes in firing[both:]:
        lines.append(f"+ {labels!r}")
        lines += [f"+     {name}: {notes[name]!r}" for name in sorted(notes)]
    return lines


def _unpaired(
    some: list[Mapping[str, str]], others: list[Mapping[str, str]]
) -> list[Mapping[str, str]]:
    """Those of `some` that have no equal among `others`, each of which serves once."""
    left = [dict(other) for other in others]
    alone: list[Mapping[str, str]] = []
    for each in some:
        if dict(each) in left:
            left.remove(dict(each))
        else:
            alone.append(each)
    return alone


def _by_labels(
    pairs: Iterable[tuple[Labels, Mapping[str, str]]],
) -> dict[Labels, list[Mapping[str, str]]]:
    found: dict[Labels, list[Mapping[str, str]]] = defaultdict(list)
    for labels, notes in pairs:
        found[labels].append(notes)
    return dict(found)


def _state(alert: Alert, start: Millis) -> str:
    since = alert.active_at if alert.resolved_at is None else alert.resolved_at
    return f"  {alert.labels!r} is {alert.state} since {format_duration(since - start)}"


def sample_difference(
    expected: Sequence[tuple[Labels, float]],
    found: Sequence[tuple[Labels, float]],
    *,
    fuzzy: bool,
) -> str:
    """`""` when both have the same series with the same values, in whatever order.

    `fuzzy` forgives the last bit of a value. NaN equals NaN, unlike in older promtools.
    """
    missing: list[tuple[Labels, float]] = []
    left = list(found)
    for labels, value in expected:
        near = [s for s in left if s[0] == labels and _same(s[1], value, fuzzy=fuzzy)]
        if near:
            left.remove(near[0])
        else:
            missing.append((labels, value))
    marked = [(labels, "-", value) for labels, value in missing]
    marked += [(labels, "+", value) for labels, value in left]
    # What was expected of a series stands above what it is.
    marked.sort(key=lambda line: (line[0], line[1] == "+"))
    return "\n".join(f"{mark} {labels!r} {format_float(value)}" for labels, mark, value in marked)


def _same(a: float, b: float, *, fuzzy: bool) -> bool:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return True
    return fuzzy and b in (math.nextafter(a, -math.inf), math.nextafter(a, math.inf))
