"""Which parts of an expression have the same value at all times, so that one computation serves."""

from __future__ import annotations

from enginewatch.promql.ast import (
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    StringLiteral,
    Subquery,
    VectorSelector,
)
from enginewatch.promql.functions import TIME_DEPENDENT


def fixed_parts(expr: Expr) -> frozenset[int]:
    """The identities of the largest subexpressions that do not depend on the evaluation time.

    Literals are left out: they cost nothing.
    """
    found: set[int] = set()
    if _is_fixed(expr, found):
        found.add(id(expr))
    return frozenset(found)


def _is_fixed(expr: Expr, found: set[int]) -> bool:
    """Whether `expr` is fixed. If it is not, those of its operands that are go to `found`."""
    match expr:
        case NumberLiteral() | StringLiteral():
            return True
        case VectorSelector(at=at) | MatrixSelector(selector=VectorSelector(at=at)):
            return at is not None
        case Subquery(expr=operand, at=at):
            # Even a fixed subquery evaluates its operand at many times.
            if _is_fixed(operand, found):
                found.add(id(operand))
            return at is not None
        case Call(args=()):
            return False
    operands = expr.children()
    fixed = [_is_fixed(operand, found) for operand in operands]
    if all(fixed) and not (isinstance(expr, Call) and expr.func in TIME_DEPENDENT):
        return True
    for operand, is_fixed in zip(operands, fixed, strict=True):
        if is_fixed and not isinstance(operand, NumberLiteral | StringLiteral):
            found.add(id(operand))
    return False
