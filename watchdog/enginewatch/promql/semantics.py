"""What an expression must mean to be accepted: types, arity, matching. Each check answers None or
raises PromQLError at the offending part."""

from __future__ import annotations

from typing import Final

from enginewatch.model import METRIC_NAME, compile_re2
from enginewatch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Expr,
    Paren,
    Position,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorMatching,
    VectorSelector,
)
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.grammar import COMPARISONS, SET_OPERATORS
from enginewatch.promql.signatures import AGGREGATES, FUNCTIONS

_NUMERIC: Final = (ValueType.SCALAR, ValueType.VECTOR)


def check_selector(node: VectorSelector, text: str, *, name_outside: bool) -> None:
    """A name before the braces excludes one inside; some matcher must refuse the empty string."""
    names = [m.value for m in node.matchers if m.name == METRIC_NAME]
    if name_outside and len(names) > 1:
        raise PromQLError.at(
            f"the metric name must not be given twice: {names[0]!r} and {names[1]!r}",
            text,
            node.pos,
        )
    if not node.name and all(m.matches("") for m in node.matchers):
        raise PromQLError.at(
            "a selector needs at least one matcher that does not match the empty string",
            text,
            node.pos,
            hint="it would select every series",
        )


def check_subquery(node: Subquery, text: str) -> None:
    if node.expr.type is not ValueType.VECTOR:
        raise PromQLError.at(
            f"a subquery needs an instant vector, not a {node.expr.type}", text, node.expr.pos
        )


def check_unary(node: Unary, text: str) -> None:
    if node.expr.type not in _NUMERIC:
        raise PromQLError.at(
            f'unary "{node.op}" needs a scalar or an instant vector, not a {node.expr.type}',
            text,
            node.expr.pos,
        )


def check_call(node: Call, text: str) -> None:
    signature = FUNCTIONS[node.func]
    _check_count(node, text, len(node.args), signature.least, signature.most)
    for index, arg in enumerate(node.args):
        _check_type(arg, signature.arg_type(index), f"argument {index + 1} of {node.func}", text)
    if node.func == "label_replace":
        _check_replacement(node.args[-1], text)


def _check_count(node: Call, text: str, given: int, least: int, most: int | None) -> None:
    if given >= least and (most is None or given <= most):
        return
    if most is None:
        wanted = f"at least {least}"
    elif least < most:
        wanted = f"{least} or {most}"
    else:
        wanted = str(least) if least else "no"
    noun = "argument" if wanted == "1" else "arguments"
    raise PromQLError.at(f"{node.func} takes {wanted} {noun}, {given} given", text, node.pos)


def _check_replacement(arg: Expr, text: str) -> None:
    """Prometheus finds a bad pattern only when the rule runs; a literal one can be told at once."""
    while isinstance(arg, Paren):
        arg = arg.expr
    if isinstance(arg, StringLiteral):
        try:
            compile_re2(arg.value, dot_matches_newline=True)
        except ValueError as failure:
            raise PromQLError.at(
                f"invalid regular expression in label_replace(): {failure}", text, arg.pos
            ) from None


def check_aggregate(node: Aggregate, text: str) -> None:
    _check_type(node.expr, ValueType.VECTOR, f"what {node.op} aggregates", text)
    wanted = AGGREGATES[node.op].param
    if wanted is not None and node.param is not None:
        _check_type(node.param, wanted, f"the parameter of {node.op}", text)


def _check_type(node: Expr, wanted: ValueType, role: str, text: str) -> None:
    if node.type is not wanted:
        raise PromQLError.at(f"{role} must be {_a(wanted)}, not {_a(node.type)}", text, node.pos)


def _a(kind: ValueType) -> str:
    return f"an {kind}" if kind is ValueType.VECTOR else f"a {kind}"


def check_binary(node: Binary, written: VectorMatching | None, at: Position, text: str) -> None:
    """`written` is the matching as it stands in the text, if any; `at` the operator and it."""
    op = node.op
    for side in (node.left, node.right):
        if side.type not in _NUMERIC:
            raise PromQLError.at(
                f'"{op}" takes scalars and instant vectors, not a {side.type}', text, side.pos
            )
    scalars = [side for side in (node.left, node.right) if side.type is ValueType.SCALAR]
    if node.return_bool and op not in COMPARISONS:
        raise PromQLError.at(f'"bool" belongs to comparisons, not to "{op}"', text, at)
    if op in COMPARISONS and not node.return_bool and len(scalars) == 2:
        raise PromQLError.at(
            "a comparison between scalars needs the bool modifier",
            text,
            at,
            hint=f"write {op} bool",
        )
    if op in SET_OPERATORS and scalars:
        raise PromQLError.at(f'"{op}" combines instant vectors, not scalars', text, scalars[0].pos)
    if written is not None:
        _check_matching(node.op, written, at, text, scalar=bool(scalars))


def _check_matching(
    op: str, written: VectorMatching, at: Position, text: str, *, scalar: bool
) -> None:
    if scalar and written.labels:
        raise PromQLError.at(
            "on, ignoring and group modifiers belong between two instant vectors", text, at
        )
    grouped = written.card in (Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY)
    if grouped and op in SET_OPERATORS:
        raise PromQLError.at(f'"{op}" matches many to many and takes no group modifier', text, at)
    both = set(written.labels) & set(written.include) if written.on else set()
    if both:
        label = min(both)
        raise PromQLError.at(
            f"the label {label!r} must not be in both on() and the group modifier", text, at
        )
