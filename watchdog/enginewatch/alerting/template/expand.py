"""Running a template's tree over the data of one alert."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from enginewatch.alerting.template import gofmt
from enginewatch.alerting.template.functions import FUNCTIONS
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
from enginewatch.alerting.template.values import (
    MAX_OUTPUT,
    Data,
    GoError,
    GoType,
    Value,
    field,
    items,
    truth,
    type_of,
)


class ExpansionError(Exception):
    """Expansion ended at the offset `at` of the text, for the reason `what`."""

    def __init__(self, what: str, at: int):
        super().__init__(what)
        self.what = what
        self.at = at


class Expansion:
    """One run. `functions` are those that need what is known only now, by name."""

    def __init__(self, data: Data, functions: Mapping[str, Callable[..., Value]]):
        self.functions = functions
        self.output: list[str] = []
        self.size = 0
        self.scope: list[tuple[str, Value]] = [
            ("$", data),
            ("$labels", data.labels),
            ("$externalLabels", data.external_labels),
            ("$externalURL", data.external_url),
            ("$value", data.value),
        ]

    def run(self, block: Block, data: Data) -> str:
        """The text. Raises ExpansionError."""
        self.block(block, data)
        return "".join(self.output)

    def block(self, block: Block, dot: Value) -> None:
        for node in block:
            mark = len(self.scope)
            match node:
                case Text(text):
                    self.write(text, 0)
                case Action(pipeline):
                    value = self.pipeline(pipeline, dot)
                    if not pipeline.names:
                        text = gofmt.show(gofmt.printable(value))
                        self.write(text, pipeline.expr.at)
                    continue  # what an action declares holds to the end of the block
                case Range(pipeline, body, otherwise):
                    self.loop(pipeline, body, otherwise, dot)
                case If(pipeline, body, otherwise):
                    self.block(body if truth(self.pipeline(pipeline, dot)) else otherwise, dot)
                case With(pipeline, body, otherwise):
                    value = self.pipeline(pipeline, dot)
                    self.block(*((body, value) if truth(value) else (otherwise, dot)))
            del self.scope[mark:]

    def loop(self, pipeline: Pipeline, body: Block, otherwise: Block, dot: Value) -> None:
        value = self.expr(pipeline.expr, dot)
        try:
            pairs = items(value)
        except GoError as failure:
            raise ExpansionError(str(failure), pipeline.expr.at) from None
        mark = len(self.scope)
        for key, element in pairs:
            self.scope += zip(reversed(pipeline.names), (element, key), strict=False)
            self.block(body, element)
            del self.scope[mark:]
        if not pairs:
            self.block(otherwise, dot)

    def write(self, text: str, at: int) -> None:
        self.size += len(text)
        if self.size > MAX_OUTPUT:
            raise ExpansionError(f"more than {MAX_OUTPUT} characters", at)
        self.output.append(text)

    def pipeline(self, pipeline: Pipeline, dot: Value) -> Value:
        value = self.expr(pipeline.expr, dot)
        for name in pipeline.names:
            if pipeline.effect is Effect.ASSIGN:
                self.scope[self.find(name)] = (name, value)
            else:
                self.scope.append((name, value))
        return value

    def find(self, name: str) -> int:
        """Where the innermost variable of this name is; the parser saw that there is one."""
        return next(i for i in reversed(range(len(self.scope))) if self.scope[i][0] == name)

    def expr(self, expr: Expr, dot: Value) -> Value:
        match expr:
            case Literal():
                return expr.value
            case Dot():
                return dot
            case Variable(name=name):
                return self.scope[self.find(name)][1]
            case Access(at, base, names):
                value = self.expr(base, dot)
                for part in names:
                    try:
                        value = field(value, part)
                    except GoError as failure:
                        raise ExpansionError(str(failure), at) from None
                return value
            case Call():
                return self.call(expr, dot)

    def call(self, call: Call, dot: Value) -> Value:
        function = FUNCTIONS[call.name]
        args = list(call.args)
        values: list[Value] = []
        # What comes through a pipe is computed first; `and` and `or` stop at what decides them.
        piped = [self.expr(args.pop(), dot)] if call.piped else []
        for arg in args:
            values.append(self.expr(arg, dot))
            if call.name in ("and", "or") and truth(values[-1]) is (call.name == "or"):
                return values[-1]
        values += piped
        for param, value, arg in zip(function.params, values, call.args, strict=False):
            kind = type_of(value)
            if param is not GoType.ANY and kind is not param:
                raise ExpansionError(f"wrong type for value; expected {param}; got {kind}", arg.at)
        apply = function.apply or self.functions[call.name]
        try:
            return apply(*values)
        except GoError as failure:
            raise ExpansionError(f"error calling {call.name}: {failure}", call.at) from None
