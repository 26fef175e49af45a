"""Whole-number expressions in task templates: `a * b - 7`, of drawn values, and nothing more."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from enginewatch.canary.errors import CanaryError

_BINARY: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: Final[Mapping[type, Callable[[Any, Any], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALLED: Final[Mapping[str, Callable[..., Any]]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "len": len,
    "sorted": sorted,
}


def evaluate(text: str, names: Mapping[str, Any], where: str) -> Any:
    """The value of an expression: names, numbers, `+ - * // %`, comparisons, `and`, `x[i]`,
    and sum, min, max, len and sorted. Raises CanaryError."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, LookupError) as failure:
        reason = f"{text!r}: {failure or type(failure).__name__}"
        raise CanaryError(f"not an expression here: {reason}", where=where) from None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | str() as found):
            pass
        case ast.Name(id=name):
            found = names[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = -_value(inner, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            found = _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            found = _COMPARED[type(op)](_value(left, names), _value(right, names))
        case ast.BoolOp(op=ast.And(), values=values):
            found = all(_value(each, names) for each in values)
        case ast.Subscript(value=inner, slice=index):
            found = _value(inner, names)[_value(index, names)]
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in _CALLED:
            found = _CALLED[name](_value(inner, names))
        case _:
            raise ValueError("only whole numbers, names, + - * // % and comparisons")
    return found
