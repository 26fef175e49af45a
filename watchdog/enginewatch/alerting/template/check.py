"""What would always fail at expansion, found at load: types, counts of arguments, literals.

Go finds these when an alert fires, and the page then says
`<error expanding template…>`. Types that can't be known are let through.
"""

from __future__ import annotations

from typing import Final

from enginewatch.alerting.template import gofmt
from enginewatch.alerting.template.functions import COMPARISONS, FUNCTIONS
from enginewatch.alerting.template.lexer import Source
from enginewatch.alerting.template.nodes import (
    Access,
    Action,
    Block,
    Call,
    Dot,
    Effect,
    Expr,
    If,
    Literal,
    Pipeline,
    Range,
    Text,
    Variable,
    With,
)
from enginewatch.alerting.template.values import FIELDS, GoType, type_of
from enginewatch.model import compile_re2

_MAPS: Final = {
    GoType.LABELS: GoType.STRING,
    GoType.ARGS: GoType.ANY,
    GoType.ANY: GoType.ANY,
}
_UNCOMPARABLE: Final = (GoType.LABELS, GoType.RESULT, GoType.ARGS, GoType.DATA)
_ELEMENTS: Final = {
    GoType.RESULT: (GoType.INT, GoType.SAMPLE),
    GoType.LABELS: (GoType.STRING, GoType.STRING),
    GoType.ARGS: (GoType.STRING, GoType.ANY),
    GoType.ANY: (GoType.ANY, GoType.ANY),
}
ROOT_TYPES: Final = {
    "$": GoType.DATA,
    "$labels": GoType.LABELS,
    "$value": GoType.FLOAT,
    "$externalLabels": GoType.LABELS,
    "$externalURL": GoType.STRING,
}


def check(source: Source, block: Block) -> None:
    """Raise TemplateError for the first expression that can't work."""
    assigned = _assigned(block)
    _Checker(source, assigned).block(
        block, GoType.DATA, {n: GoType.ANY if n in assigned else t for n, t in ROOT_TYPES.items()}
    )


def _assigned(block: Block) -> set[str]:
    """The variables that some action gives another value: their types aren't known."""
    names: set[str] = set()
    for node in block:
        if isinstance(node, Text):
            continue
        if node.pipeline.effect is Effect.ASSIGN:
            names.update(node.pipeline.names)
        if not isinstance(node, Action):
            names |= _assigned(node.body) | _assigned(node.otherwise)
    return names


class _Checker:
    def __init__(self, source: Source, assigned: set[str]):
        self.source = source
        self.assigned = assigned

    def block(self, block: Block, dot: GoType, scope: dict[str, GoType]) -> None:
        for node in block:
            match node:
                case Text():
                    pass
                case Action(pipeline):
                    self.pipeline(pipeline, dot, scope)
                case If(pipeline, body, otherwise) | With(pipeline, body, otherwise):
                    inner = dict(scope)
                    kind = self.pipeline(pipeline, dot, inner)
                    self.block(body, kind if isinstance(node, With) else dot, dict(inner))
                    self.block(otherwise, dot, inner)
                case Range(pipeline, body, otherwise):
                    self.loop(pipeline, body, dot, dict(scope))
                    self.block(otherwise, dot, dict(scope))

    def pipeline(self, pipeline: Pipeline, dot: GoType, scope: dict[str, GoType]) -> GoType:
        kind = self.expr(pipeline.expr, dot, scope)
        for name in pipeline.names:
            scope[name] = GoType.ANY if name in self.assigned else kind
        return kind

    def loop(self, pipeline: Pipeline, body: Block, dot: GoType, scope: dict[str, GoType]) -> None:
        kind = self.expr(pipeline.expr, dot, scope)
        if kind not in _ELEMENTS:
            self.source.fail(
                f"range can't go over a {kind}",
                pipeline.expr.at,
                "range goes over the result of query, or over labels",
            )
        key, element = _ELEMENTS[kind]
        for name, of in zip(reversed(pipeline.names), (element, key), strict=False):
            scope[name] = GoType.ANY if name in self.assigned else of
        self.block(body, element, scope)

    def expr(self, expr: Expr, dot: GoType, scope: dict[str, GoType]) -> GoType:
        match expr:
            case Literal(value=value):
                return type_of(value)
            case Dot():
                return dot
            case Variable(name=name):
                return scope[name]
            case Access():
                kind = self.expr(expr.base, dot, scope)
                for i in range(len(expr.names)):
                    kind = self.member(expr, i, kind)
                return kind
            case Call():
                kinds = [self.expr(arg, dot, scope) for arg in expr.args]
                self.call(expr, kinds)
                return FUNCTIONS[expr.name].returns

    def member(self, expr: Access, i: int, kind: GoType) -> GoType:
        name = expr.names[i]
        fields = FIELDS.get(kind, {})
        if kind in _MAPS or name in fields:
            return _MAPS.get(kind) or fields[name]
        if kind is GoType.STRING and i:
            whole = ".".join(expr.names)
            hint = f'a label with a point in its name: index $labels "{whole}"'
        elif fields:
            hint = "there are " + ", ".join(f".{known}" for known in fields)
        else:
            hint = "it has no fields"
        of = "an alert" if kind is GoType.DATA else f"a {kind}"
        return self.source.fail(f"no field .{name} in {of}", expr.at, hint)

    def call(self, call: Call, kinds: list[GoType]) -> None:
        function = FUNCTIONS[call.name]
        fixed = len(function.params)
        if len(kinds) < fixed or (len(kinds) > fixed and function.rest is None):
            wanted = f"{fixed} or more" if function.rest else str(fixed)
            plural = "" if wanted == "1" else "s"
            self.source.fail(
                f"{call.name} takes {wanted} argument{plural}, not {len(kinds)}", call.at
            )
        for param, kind, arg in zip(function.params, kinds, call.args, strict=False):
            if param is not GoType.ANY and kind not in (param, GoType.ANY):
                hint = 'printf "%v" makes a string of it' if param is GoType.STRING else ""
                self.source.fail(f"{call.name} takes a {param}, not a {kind}", arg.at, hint)
        if call.name in COMPARISONS:
            self.comparison(call, kinds)
        self.literals(call)

    def comparison(self, call: Call, kinds: list[GoType]) -> None:
        if call.name == "eq" and len(kinds) < 2:
            self.source.fail("eq takes 2 or more arguments, not 1", call.at)
        for kind, arg in zip(kinds, call.args, strict=True):
            if kind in _UNCOMPARABLE:
                self.source.fail(f"a {kind} can't be compared", arg.at)
            if GoType.ANY in (kind, kinds[0]) or kind is kinds[0] or GoType.NIL in (kind, kinds[0]):
                continue
            hint = ""
            if {kind, kinds[0]} == {GoType.INT, GoType.FLOAT}:
                hint = "write the number with a point: 1.0"
            self.source.fail(f"{call.name} can't compare {kinds[0]} with {kind}", arg.at, hint)

    def literals(self, call: Call) -> None:
        """A pattern or a format that is written out can be tried now."""
        first = call.args[0] if call.args else None
        if not isinstance(first, Literal) or not isinstance(first.value, str):
            return
        if call.name in ("match", "reReplaceAll"):
            try:
                compile_re2(first.value)
            except ValueError as failure:
                self.source.fail(str(failure), first.at)
        if call.name == "printf" and (left_out := gofmt.unsupported(first.value)):
            self.source.fail(f"{left_out} is not supported in a format", first.at)
