"""The abstract syntax of PromQL: frozen nodes that know where they stood in the text.

Durations and offsets are integer milliseconds. `Position` is a half-open span of
character offsets, left out of comparison so that equal expressions are equal
wherever they were written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from enginewatch.model import Matcher, Millis


class Position(NamedTuple):
    """Character offsets `start <= i < end` in the expression's text."""

    start: int
    end: int


NOWHERE = Position(0, 0)


class ValueType(StrEnum):
    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"
    STRING = "string"


class AtAnchor(StrEnum):
    START = "start()"
    END = "end()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expr:
    """Base of all nodes.

    `height` counts the levels of the tree from here down, 1 for a leaf. The
    parser bounds it, so that what walks a parsed tree may recurse. `repeats` tells
    whether there is a subquery in it, so that parts are evaluated at many times.
    """

    pos: Position = field(default=NOWHERE, compare=False, repr=False)
    height: int = field(init=False, compare=False, repr=False)
    repeats: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        below, repeats = 0, isinstance(self, Subquery)
        for child in self.children():
            below = max(below, child.height)
            repeats = repeats or child.repeats
        object.__setattr__(self, "height", below + 1)
        object.__setattr__(self, "repeats", repeats)

    @property
    def type(self) -> ValueType:
        raise NotImplementedError

    def children(self) -> tuple[Expr, ...]:
        return ()

    def walk(self) -> Iterator[Expr]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children():
            yield from child.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberLiteral(Expr):
    value: float

    @property
    def type(self) -> ValueType:
        return ValueType.SCALAR


@dataclass(frozen=True, slots=True, kw_only=True)
class StringLiteral(Expr):
    value: str

    @property
    def type(self) -> ValueType:
        return ValueType.STRING


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSelector(Expr):
    """`name{matchers} offset d @ t`. The name, if written, is one of the matchers.

    `offset` moves into the past when positive. `at` is a fixed time in ms, an
    anchor, or None.
    """

    name: str
    matchers: tuple[Matcher, ...]
    offset: Millis = 0
    at: Millis | AtAnchor | None = None

    @property
    def type(self) -> ValueType:
        return ValueType.VECTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixSelector(Expr):
    selector: VectorSelector
    range: Millis

    @property
    def type(self) -> ValueType:
        return ValueType.MATRIX

    def children(self) -> tuple[Expr, ...]:
        return (self.selector,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subquery(Expr):
    """`expr[range:step] offset d @ t`; `step` is None where the default interval is meant."""

    expr: Expr
    range: Millis
    step: Millis | None = None
    offset: Millis = 0
    at: Millis | AtAnchor | None = None

    @property
    def type(self) -> ValueType:
        return ValueType.MATRIX

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paren(Expr):
    expr: Expr

    @property
    def type(self) -> ValueType:
        return self.expr.type

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Expr):
    """`+expr` or `-expr`."""

    op: str
    expr: Expr

    @property
    def type(self) -> ValueType:
        return self.expr.type

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,)


class Cardinality(StrEnum):
    ONE_TO_ONE = "one-to-one"
    MANY_TO_ONE = "many-to-one"
    ONE_TO_MANY = "one-to-many"
    MANY_TO_MANY = "many-to-many"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorMatching:
    """`on(...)`/`ignoring(...)` with `group_left(...)`/`group_right(...)`.

    `on` tells whether `labels` are those to match on or those to leave out;
    `include` are the labels that group_left or group_right copies.
    """

    card: Cardinality = Cardinality.ONE_TO_ONE
    on: bool = False
    labels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Expr):
    """`left op right`; `matching` is None unless both sides are instant vectors."""

    op: str
    left: Expr
    right: Expr
    return_bool: bool = False
    matching: VectorMatching | None = None

    @property
    def type(self) -> ValueType:
        if self.left.type is ValueType.SCALAR and self.right.type is ValueType.SCALAR:
            return ValueType.SCALAR
        return ValueType.VECTOR

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Expr):
    """`op by|without (grouping) (param, expr)`."""

    op: str
    expr: Expr
    param: Expr | None = None
    grouping: tuple[str, ...] = ()
    without: bool = False

    @property
    def type(self) -> ValueType:
        return ValueType.VECTOR

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,) if self.param is None else (self.param, self.expr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Expr):
    """A function call; `returns` comes from the function table when parsed."""

    func: str
    args: tuple[Expr, ...]
    returns: ValueType

    @property
    def type(self) -> ValueType:
        return self.returns

    def children(self) -> tuple[Expr, ...]:
        return self.args
