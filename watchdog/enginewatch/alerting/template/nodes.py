"""The syntax tree of a template: frozen nodes that know where they stood.

`at` is a character offset in the template's text. Pipelines are folded into
calls: `a | f b` is `f b a`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number or boolean, or nil; a rune is its number."""

    at: int
    value: str | bool | int | float | None


@dataclass(frozen=True, slots=True)
class Dot:
    at: int


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`; the name `$` is the root."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class Access:
    """`base.a.b`; the base is `Dot` where nothing is written before the first point."""

    at: int
    base: Expr
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function call. `piped` tells that the last argument came through a pipe, so that it was
    computed before the others."""

    at: int
    name: str
    args: tuple[Expr, ...]
    piped: bool = False


Expr: TypeAlias = "Literal | Dot | Variable | Access | Call"


class Effect(StrEnum):
    DECLARE = ":="
    ASSIGN = "="


@dataclass(frozen=True, slots=True)
class Pipeline:
    """An expression, and the variables that take its value (two only in `range`)."""

    expr: Expr
    names: tuple[str, ...] = ()
    effect: Effect = Effect.DECLARE


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class If:
    pipeline: Pipeline
    body: Block
    otherwise: Block


@dataclass(frozen=True, slots=True)
class With:
    """As `If`, and the value is `.` in the body."""

    pipeline: Pipeline
    body: Block
    otherwise: Block


@dataclass(frozen=True, slots=True)
class Range:
    pipeline: Pipeline
    body: Block
    otherwise: Block


Node: TypeAlias = "Text | Action | If | With | Range"
Block: TypeAlias = "tuple[Node, ...]"


def subexpressions(expr: Expr) -> list[Expr]:
    """The expression and all inside it."""
    match expr:
        case Access():
            return [expr, *subexpressions(expr.base)]
        case Call():
            return [expr, *(inner for arg in expr.args for inner in subexpressions(arg))]
    return [expr]


def expressions(block: Block) -> list[Expr]:
    """Every expression of a block and of the blocks in it, in the order of the text."""
    found: list[Expr] = []
    for node in block:
        if isinstance(node, Text):
            continue
        found += subexpressions(node.pipeline.expr)
        if not isinstance(node, Action):
            found += expressions(node.body) + expressions(node.otherwise)
    return found


def reads_value(block: Block, *, rooted: bool = True, conditions: bool = True) -> bool:
    """Whether a measured value goes into the text: the alert's own, or that of a query.

    `rooted` tells that `.` is still the root, which holds the value when it is
    printed whole; `conditions` whether what `if` asks for counts too.
    """
    for node in block:
        if isinstance(node, Text):
            continue
        asks = isinstance(node, If)
        if (conditions or not asks) and _reads_value(node.pipeline.expr, rooted=rooted):
            return True
        if isinstance(node, Action):
            continue
        sides = ((node.body, rooted and asks), (node.otherwise, rooted))
        if any(reads_value(side, rooted=root, conditions=conditions) for side, root in sides):
            return True
    return False


def _reads_value(expr: Expr, *, rooted: bool) -> bool:
    match expr:
        case Variable():
            return expr.name in ("$value", "$")
        case Dot():
            return rooted
        case Access(base=Variable(name="$labels" | "$externalLabels")):
            return False  # a label may be called Value
        case Access():
            inside = isinstance(expr.base, Call) and _reads_value(expr.base, rooted=rooted)
            return inside or expr.names[0] == "Value"
        case Call():
            inside = any(_reads_value(arg, rooted=rooted) for arg in expr.args)
            return inside or expr.name == "value"
    return False
