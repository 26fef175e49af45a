"""Binary operators: arithmetic, comparisons and set operations on scalars and vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from enginewatch.promql.ast import Binary, Cardinality, VectorMatching
from enginewatch.promql.context import Context
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.grammar import COMPARISONS, SET_OPERATORS
from enginewatch.promql.layouts import Relabelling, derive_pair, relabel, relabelling
from enginewatch.promql.matching import matched_groups, pair, result_labels
from enginewatch.promql.values import Scalar, Value, Vector, no_series
from enginewatch.store.base import BoolArray, FloatArray

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
"""IEEE throughout: division by zero is infinite or NaN, and `%` takes the sign of the dividend."""


def evaluate_binary(node: Binary, context: Context) -> Value:
    left = context.value(node.left)
    if context.query.lazy and isinstance(left, Vector) and _is_settled(node.op, left):
        return no_series()
    right = context.value(node.right)
    if isinstance(left, Vector) and isinstance(right, Vector):
        matching = node.matching or VectorMatching()
        if node.op in SET_OPERATORS:
            return _set_operation(node.op, left, right, matching)
        return _matched(node, left, right, matching, context)
    if isinstance(left, Vector) and isinstance(right, Scalar):
        return _with_scalar(node, left, left.values, right.value, context)
    if isinstance(left, Scalar) and isinstance(right, Vector):
        return _with_scalar(node, right, left.value, right.values, context)
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return Scalar(float(OPERATORS[node.op](left.value, right.value)))
    raise EvaluationError(f'"{node.op}" takes scalars and instant vectors')


def _is_settled(op: str, left: Vector) -> bool:
    """Whether nothing comes of it whatever is on the right."""
    return op != "or" and not left.present.any()


def _with_scalar(
    node: Binary,
    vector: Vector,
    left: FloatArray | float,
    right: FloatArray | float,
    context: Context,
) -> Vector:
    """`vector` is one of the sides; a comparison keeps its values, whichever side it is."""
    outcome = OPERATORS[node.op](left, right)
    if node.op not in COMPARISONS:
        return context.nameless(vector.layout, outcome, vector.present)
    if node.return_bool:
        return context.nameless(vector.layout, outcome.astype(np.float64), vector.present)
    return Vector(vector.layout, vector.values, vector.present & outcome, nameless=vector.nameless)


def _matched(
    node: Binary, left: Vector, right: Vector, matching: VectorMatching, context: Context
) -> Vector:
    """Each row of the many side (the left one of a one-to-one match) with its partner."""
    swapped = matching.card is Cardinality.ONE_TO_MANY
    many, one = (right, left) if swapped else (left, right)
    if not many.present.any() or not one.present.any():
        return no_series()
    pairing = pair(many, one, matching)
    theirs = one.values[pairing.partner]
    outcome = OPERATORS[node.op](*((theirs, many.values) if swapped else (many.values, theirs)))
    compares = node.op in COMPARISONS
    filters = compares and not node.return_bool
    delayed = context.query.delayed_name_removal
    drop_name = not compares or (node.return_bool and not delayed)
    named = result_labels(many, one, pairing, matching, drop_name=drop_name)
    _check_unique(pairing.matched, named, matching)
    kept, marked = pairing.matched, None
    if filters:
        kept = kept & outcome
        outcome = left.values[pairing.partner] if swapped else many.values
        marked = many.nameless
    elif compares:
        outcome = outcome.astype(np.float64)
        marked = np.ones(len(many.layout), dtype=np.bool_) if delayed else None
    return relabel(Vector(many.layout, outcome, kept, nameless=marked), named)


def _check_unique(matched: BoolArray, named: Relabelling, matching: VectorMatching) -> None:
    """Two matched rows with one name are an error, even where a comparison then drops one."""
    if named.rows is None or matching.card is Cardinality.ONE_TO_ONE:
        return
    if np.bincount(named.rows[matched], minlength=1).max() > 1:
        raise EvaluationError(
            "multiple matches for labels: grouping labels must ensure unique matches"
        )


def _set_operation(op: str, left: Vector, right: Vector, matching: VectorMatching) -> Vector:
    if op == "or":
        return _union(left, right, matching)
    found = matched_groups(left, right, matching)
    kept = left.present & (found if op == "and" else ~found)
    return Vector(left.layout, left.values, kept, nameless=left.nameless)


def _union(left: Vector, right: Vector, matching: VectorMatching) -> Vector:
    """All of `left`, and what of `right` has no match there."""
    if not left.present.any():
        return Vector(right.layout, right.values, right.present, nameless=right.nameless)
    added = right.present & ~matched_groups(right, left, matching)
    if not added.any():
        return Vector(left.layout, left.values, left.present, nameless=left.nameless)
    named = derive_pair(
        left.layout,
        right.layout,
        "union",
        lambda: relabelling((*left.layout.labels, *right.layout.labels)),
    )
    values = np.concatenate((left.values, right.values))
    present = np.concatenate((left.present, added))
    both = Vector(named.layout, values, present, nameless=_joined_marks(left, right))
    return relabel(both, named)


def _joined_marks(left: Vector, right: Vector) -> BoolArray | None:
    if left.nameless is None and right.nameless is None:
        return None
    return np.concatenate(
        [
            np.zeros(len(side.layout), dtype=np.bool_) if side.nameless is None else side.nameless
            for side in (left, right)
        ]
    )
