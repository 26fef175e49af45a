"""Vector matching: which samples of two vectors belong together.

Which rows *can* belong together depends on labels alone and is memoised; which
*do* depends on who is present, and is plain array work. A side may hold several
series of one match group as long as no two of them are present at once, which
is what a series looks like whose labels changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from enginewatch.model import METRIC_NAME, Labels
from enginewatch.promql.ast import Cardinality, VectorMatching
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.layouts import (
    Relabelling,
    derive_pair,
    number_by,
    relabelling,
    without_name,
)
from enginewatch.promql.values import Vector
from enginewatch.store.base import BoolArray, IntArray, Layout


class Signatures(NamedTuple):
    """The match group of each row, and the labels of each group."""

    group: IntArray
    keys: tuple[Labels, ...]

    @property
    def unique(self) -> bool:
        """Whether no two rows are of one group."""
        return len(self.keys) == len(self.group)


class Pairing(NamedTuple):
    """For each row of the many side its partner's row on the one side; rubbish unless `matched`."""

    partner: IntArray
    matched: BoolArray


def signatures(layout: Layout, matching: VectorMatching) -> Signatures:
    names = frozenset(matching.labels)
    return layout.derive(
        ("signatures", matching.on, names),
        lambda: Signatures(*number_by(layout, names, without=not matching.on)),
    )


def shared_groups(left: Layout, right: Layout, matching: VectorMatching) -> IntArray:
    """For each row of `right` the number of its match group among those of `left`, or -1."""
    ours, theirs = signatures(left, matching), signatures(right, matching)

    def build() -> IntArray:
        number_of = {key: number for number, key in enumerate(ours.keys)}
        translated = [number_of.get(key, -1) for key in theirs.keys]
        return np.array(translated, dtype=np.int64)[theirs.group]

    names = frozenset(matching.labels)
    return derive_pair(left, right, ("shared groups", matching.on, names), build)


def matched_groups(left: Vector, right: Vector, matching: VectorMatching) -> BoolArray:
    """Of each row of `left`, whether any present row of `right` is of its match group."""
    there = np.zeros(len(signatures(left.layout, matching).keys) + 1, dtype=np.bool_)
    there[shared_groups(left.layout, right.layout, matching)[right.present]] = True
    return there[:-1][signatures(left.layout, matching).group]


def pair(many: Vector, one: Vector, matching: VectorMatching) -> Pairing:
    """Partners of the rows of `many`. Raises EvaluationError where a match is not unique."""
    _check_one_side(one, matching)
    ours = signatures(many.layout, matching)
    live = np.flatnonzero(one.present)
    owner = np.full(len(ours.keys) + 1, -1, dtype=np.int64)
    owner[shared_groups(many.layout, one.layout, matching)[live]] = live
    owner[-1] = -1
    partner = owner[ours.group]
    matched = many.present & (partner >= 0)
    if matching.card is Cardinality.ONE_TO_ONE and not ours.unique:
        uses = np.bincount(ours.group[matched], minlength=len(ours.keys))
        if uses.max(initial=0) > 1:
            raise EvaluationError(
                "multiple matches for labels: many-to-one matching must be explicit"
                " (group_left/group_right)"
            )
    return Pairing(partner, matched)


def _check_one_side(one: Vector, matching: VectorMatching) -> None:
    groups = signatures(one.layout, matching)
    if groups.unique:
        return
    uses = np.bincount(groups.group[one.present], minlength=len(groups.keys))
    if uses.max(initial=0) < 2:
        return
    number = int(np.argmax(uses > 1))
    rows = np.flatnonzero(one.present & (groups.group == number))
    first, second = sorted(one.layout.labels[row] for row in rows.tolist())[:2]
    side = "left" if matching.card is Cardinality.ONE_TO_MANY else "right"
    raise EvaluationError(
        f"found duplicate series for the match group {braced(groups.keys[number])} on the"
        f" {side} hand-side of the operation: [{braced(first)}, {braced(second)}];many-to-many"
        " matching not allowed: matching labels must be unique on one side"
    )


def braced(labels: Labels) -> str:
    """A label set with the name among the other labels, as Prometheus prints it in errors."""
    unnamed = repr(labels.without(METRIC_NAME))
    name = f'__name__="{labels.name}"' if labels.name else ""
    return f"{{{', '.join(part for part in (name, unnamed[1:-1]) if part)}}}"


class _Included:
    """The last result layout of a match that copies labels, and the partners it was made for."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made: tuple[IntArray, Relabelling] | None = None


def result_labels(
    many: Vector, one: Vector, pairing: Pairing, matching: VectorMatching, *, drop_name: bool
) -> Relabelling:
    """What the rows of `many` are called in the result of a match."""
    key = ("match result", matching, drop_name)
    if not matching.include:
        return _own_labels(many.layout, matching, drop_name=drop_name)
    # Copied labels depend on the partners. Those seldom change, so the layout for the
    # last ones is kept; a row without a partner is not in the result and keeps its old one.
    memo = derive_pair(many.layout, one.layout, key, _Included)
    before = memo.made
    if before is None:
        partner = np.where(pairing.matched, pairing.partner, -1)
    else:
        partner = np.where(pairing.matched, pairing.partner, before[0])
        if np.array_equal(partner, before[0]):
            return before[1]
    theirs = one.layout.labels
    result = relabelling(
        _copied(_own(each, matching, drop_name), theirs[row], matching)
        if row >= 0
        else _own(each, matching, drop_name)
        for each, row in zip(many.layout.labels, partner.tolist(), strict=True)
    )
    memo.made = (partner, result)
    return result


def _own_labels(layout: Layout, matching: VectorMatching, *, drop_name: bool) -> Relabelling:
    one_to_one = matching.card is Cardinality.ONE_TO_ONE
    if not (one_to_one and (matching.on or matching.labels)):
        # The many side's labels stay as they are, but for the name.
        return without_name(layout) if drop_name else Relabelling(layout, None)
    return layout.derive(
        ("match result", matching, drop_name),
        lambda: relabelling(_own(each, matching, drop_name) for each in layout.labels),
    )


def _own(labels: Labels, matching: VectorMatching, drop_name: bool) -> Labels:
    """What a match leaves of the many side's labels."""
    if drop_name:
        labels = labels.without(METRIC_NAME)
    if matching.card is not Cardinality.ONE_TO_ONE:
        return labels
    return labels.only(matching.labels) if matching.on else labels.without(*matching.labels)


def _copied(own: Labels, partner: Labels, matching: VectorMatching) -> Labels:
    return Labels({**own, **{name: partner.get(name, "") for name in matching.include}})
