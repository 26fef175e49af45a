"""Functions that change labels, functions that sort, and absent()."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, compile_re2
from enginewatch.promql.ast import Call, Expr, MatrixSelector, VectorSelector
from enginewatch.promql.context import Context, unwrapped
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.layouts import Relabelling, relabel, relabelling
from enginewatch.promql.ranking import check_label_name
from enginewatch.promql.values import Vector, no_series
from enginewatch.store.base import IntArray, Layout

VectorFunction = Callable[[Call, Context], Vector]

_GROUP: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})", re.ASCII)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,3}")
_DIGITS: Final = re.compile(r"(\d+)")


def _label_replace(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    target, template, source, pattern = (context.string(arg) for arg in call.args[1:])
    check_label_name(target)

    def build() -> tuple[Relabelling, list[bool]]:
        compiled = _compiled(pattern)

        def replaced(value: str) -> str | None:
            match = compiled.fullmatch(value)
            return None if match is None else _expanded(template, match)

        rows = vector.layout.labels
        values = [each.get(source, "") for each in rows]
        # A thousand series may share a few values.
        made = {value: replaced(value) for value in dict.fromkeys(values)}
        given = [made[value] for value in values]
        return (
            relabelling(
                each if new is None else each.with_(**{target: new})
                for each, new in zip(rows, given, strict=True)
            ),
            [new is not None for new in given],
        )

    key = ("label_replace", target, template, source, pattern)
    return _renamed(vector, target, *vector.layout.derive(key, build))


def _compiled(pattern: str) -> Any:
    try:
        return compile_re2(pattern, dot_matches_newline=True)
    except ValueError as failure:
        raise EvaluationError(f"invalid regular expression in label_replace(): {failure}") from None


def _expanded(template: str, match: Any) -> str:
    """`$1`, `${1}` and `${name}` replaced as by Go's `Regexp.Expand`; unknown groups are empty."""

    def part(found: re.Match[str]) -> str:
        dollar, bare, braced = found.groups()
        if dollar:
            return "$"
        name = bare or braced
        try:
            return match.group(int(name) if _NUMBER.fullmatch(name) else name) or ""
        except (IndexError, KeyError):
            return ""

    return _GROUP.sub(part, template)


def _label_join(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    target, separator, *sources = (context.string(arg) for arg in call.args[1:])
    for name in (target, *sources):
        check_label_name(name)

    def joined(labels: Labels) -> Labels:
        return labels.with_(**{target: separator.join(labels.get(each, "") for each in sources)})

    key = ("label_join", target, separator, *sources)
    named = vector.layout.derive(
        key, lambda: relabelling(joined(each) for each in vector.layout.labels)
    )
    return _renamed(vector, target, named, [True] * len(vector.layout))


def _renamed(vector: Vector, target: str, named: Relabelling, changed: list[bool]) -> Vector:
    if vector.nameless is not None and target == METRIC_NAME:
        # Names to be dropped at the end: one that was just given is meant to stay.
        marked = vector.nameless & ~np.array(changed, dtype=np.bool_)
        vector = replace(vector, nameless=marked)
    return relabel(vector if vector.order is None else replace(vector, order=None), named)


def _sorted(sign: int, call: Call, context: Context) -> Vector:
    """By value, NaN last either way. A range query's series come in order of labels regardless."""
    vector = context.vector(call.args[0])
    _warn_of_sort(call, context)
    live = np.flatnonzero(vector.present)
    values = vector.values[live]
    order = live[np.lexsort((sign * values, np.isnan(values)))]
    return replace(vector, order=order, times=None)


def _sorted_by_label(reverse: bool, call: Call, context: Context) -> Vector:
    """By the values of the given labels, numbers in them by size; then by all labels."""
    vector = context.vector(call.args[0])
    _warn_of_sort(call, context)
    names = tuple(context.string(arg) for arg in call.args[1:])
    ranks = vector.layout.derive(("label ranks", names), lambda: _label_ranks(vector.layout, names))
    live = np.flatnonzero(vector.present)
    order = live[np.argsort(ranks[live])]
    return replace(vector, order=order[::-1] if reverse else order, times=None)


def _label_ranks(layout: Layout, names: Iterable[str]) -> IntArray:
    def key(row: int) -> tuple[object, ...]:
        labels = layout.labels[row]
        return (*(_natural(labels.get(name, "")) for name in names), tuple(labels.items()))

    ranks = np.empty(len(layout), dtype=np.int64)
    ranks[sorted(range(len(layout)), key=key)] = np.arange(len(layout))
    return ranks


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """A sort key in which `4m5` comes before `4m60`, and text after numbers."""
    return [
        (False, int(part), part) if part.isdecimal() else (True, 0, part)
        for part in _DIGITS.split(text)
        if part
    ]


def _warn_of_sort(call: Call, context: Context) -> None:
    if context.query.step:
        context.warn(
            "sort is ineffective for range queries since results are always ordered by labels",
            call.pos,
        )


def _absent(call: Call, context: Context) -> Vector:
    """One series if the operand has none, with the labels its `=` matchers ask for."""
    vector = context.vector(call.args[0])
    return no_series() if vector.present.any() else one_for(call.args[0])


def one_for(expr: Expr) -> Vector:
    """The series that stands for an absent operand."""
    selector = unwrapped(expr)
    if isinstance(selector, MatrixSelector):
        selector = selector.selector
    matchers = selector.matchers if isinstance(selector, VectorSelector) else ()
    return Vector(_layout_asked_for(matchers), np.ones(1), np.ones(1, dtype=np.bool_))


@lru_cache(maxsize=4096)
def _layout_asked_for(matchers: tuple[Matcher, ...]) -> Layout:
    """A label asked for twice, or otherwise than by `=`, is left out, as in Prometheus."""
    asked: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in matchers:
        if matcher.name == METRIC_NAME:
            continue
        once = matcher.op is MatchOp.EQUAL and matcher.name not in seen
        asked[matcher.name] = matcher.value if once else ""
        if once:
            seen.add(matcher.name)
    return Layout((Labels(asked),))


FUNCTIONS: Final[dict[str, VectorFunction]] = {
    "absent": _absent,
    "label_join": _label_join,
    "label_replace": _label_replace,
    "sort": partial(_sorted, 1),
    "sort_by_label": partial(_sorted_by_label, False),
    "sort_by_label_desc": partial(_sorted_by_label, True),
    "sort_desc": partial(_sorted, -1),
}
