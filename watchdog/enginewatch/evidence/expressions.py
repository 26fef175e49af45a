"""Small expressions over extracted fields: `reserved > tried`, `round((total - done) * each)`.

Signature files write them. They are parsed with Python's own grammar and computed
here, so nothing but arithmetic, comparison and the functions of `functions.py` can
be said. A field that is not known makes the whole answer unknown (None), unless a
function asks for it: `first_known(a, b)`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from enginewatch.evidence.fields import Value

Function = Callable[..., Value]

_LONGEST: Final = 500

_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISON: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


class ExpressionError(ValueError):
    """What is wrong with an expression; `offset` is a place in its text, from 0."""

    def __init__(self, what: str, offset: int = 0):
        super().__init__(what)
        self.offset = offset


class _Unknown(Exception):  # noqa: N818  a turn of the evaluation, never seen outside
    """A field that the expression needs has no value."""


class _Environment(NamedTuple):
    fields: Mapping[str, Value]
    functions: Mapping[str, Function]


_Compute = Callable[[_Environment], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression; `names` are the fields and `calls` the functions it uses."""

    text: str
    names: frozenset[str]
    calls: frozenset[str]
    _compute: _Compute

    def evaluate(self, fields: Mapping[str, Value], functions: Mapping[str, Function]) -> Value:
        """The value, or None where a field is missing or the operation has no answer."""
        try:
            value = self._compute(_Environment(fields, functions))
        except (_Unknown, TypeError, ValueError, ArithmeticError):
            return None
        return value if isinstance(value, str | int | float | bool | list) else None


def parse(text: str) -> Expression:
    """Raises ExpressionError saying what can't be said, and where."""
    if len(text) > _LONGEST:
        raise ExpressionError("an expression this long is a program")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        compute = _compile(tree)
    except (SyntaxError, RecursionError, MemoryError) as failure:
        offset = getattr(failure, "offset", None) or 1
        raise ExpressionError("not an expression", offset - 1) from None
    nodes = list(ast.walk(tree))
    calls = {node.func.id for node in nodes if _is_call(node)}  # type: ignore[attr-defined]
    names = {node.id for node in nodes if isinstance(node, ast.Name)} - calls
    return Expression(text.strip(), frozenset(names), frozenset(calls), compute)


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _compile(node: ast.AST) -> _Compute:
    build = _BUILD.get(type(node))
    if build is None:
        place = getattr(node, "col_offset", 0)
        raise ExpressionError(f"{type(node).__name__} is not understood", place)
    return build(node)


def _constant(node: ast.Constant) -> _Compute:
    value = node.value
    if not isinstance(value, str | int | float | bool | None):
        raise ExpressionError("not a number or a text", node.col_offset)
    return lambda _: value


def _name(node: ast.Name) -> _Compute:
    name = node.id

    def compute(env: _Environment) -> Any:
        value = env.fields.get(name)
        if value is None:
            raise _Unknown
        return value

    return compute


def _binary(node: ast.BinOp) -> _Compute:
    operation = _ARITHMETIC.get(type(node.op))
    if operation is None:
        raise ExpressionError(f"{type(node.op).__name__} is not understood", node.col_offset)
    left, right = _compile(node.left), _compile(node.right)
    joins = isinstance(node.op, ast.Add)

    def compute(env: _Environment) -> Any:
        a, b = left(env), right(env)
        # A text times a number from a log could be of any length.
        if not joins and not (isinstance(a, int | float) and isinstance(b, int | float)):
            raise _Unknown
        return operation(a, b)

    return compute


def _boolean(node: ast.BoolOp) -> _Compute:
    parts = [_compile(value) for value in node.values]
    join = all if isinstance(node.op, ast.And) else any
    return lambda env: join(part(env) for part in parts)


def _unary(node: ast.UnaryOp) -> _Compute:
    operand = _compile(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda env: not operand(env)
    if isinstance(node.op, ast.USub):
        return lambda env: -operand(env)
    raise ExpressionError(f"{type(node.op).__name__} is not understood", node.col_offset)


def _choice(node: ast.IfExp) -> _Compute:
    test, then, otherwise = _compile(node.test), _compile(node.body), _compile(node.orelse)
    return lambda env: then(env) if test(env) else otherwise(env)


def _comparison(node: ast.Compare) -> _Compute:
    if len(node.ops) != 1:
        raise ExpressionError("compare two things at a time", node.col_offset)
    operation = _COMPARISON.get(type(node.ops[0]))
    if operation is None:
        raise ExpressionError(f"{type(node.ops[0]).__name__} is not understood", node.col_offset)
    left, right = _compile(node.left), _compile(node.comparators[0])
    return lambda env: operation(left(env), right(env))


def _call(node: ast.Call) -> _Compute:
    if not isinstance(node.func, ast.Name) or node.keywords:
        raise ExpressionError("only plain calls like f(x) are understood", node.col_offset)
    name = node.func.id
    arguments = [_or_none(_compile(each)) for each in node.args]
    return lambda env: env.functions[name](*[each(env) for each in arguments])


def _or_none(compute: _Compute) -> _Compute:
    def or_none(env: _Environment) -> Any:
        try:
            return compute(env)
        except _Unknown:
            return None

    return or_none


def _list(node: ast.List | ast.Tuple) -> _Compute:
    items = [_compile(each) for each in node.elts]
    return lambda env: [each(env) for each in items]


_BUILD: Final[Mapping[type[ast.AST], Callable[[Any], _Compute]]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.IfExp: _choice,
    ast.Compare: _comparison,
    ast.Call: _call,
    ast.List: _list,
    ast.Tuple: _list,
}
