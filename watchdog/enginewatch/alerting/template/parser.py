"""Tokens to a syntax tree: what is not Go, or not supported here, is refused by name."""

from __future__ import annotations

from typing import Final, NoReturn

from enginewatch.alerting.template.functions import FUNCTIONS, UNSUPPORTED
from enginewatch.alerting.template.lexer import Kind, Source, Token, tokenize
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
    Node,
    Pipeline,
    Range,
    Text,
    Variable,
    With,
)

_MAX_DEPTH: Final = 50
"""Blocks and parentheses inside one another; beyond it nobody reads the template either."""

_CONTROLS: Final[dict[str, type[If | With | Range]]] = {"if": If, "with": With, "range": Range}
_UNSUPPORTED_ACTIONS: Final = ("define", "template", "block", "break", "continue")
_WORDS: Final = (Kind.STRING, Kind.NUMBER, Kind.NAME, Kind.FIELD, Kind.VARIABLE)
_CONSTANTS: Final = {"true": True, "false": False, "nil": None}
PREDECLARED: Final = ("$", "$labels", "$value", "$externalLabels", "$externalURL")


def parse(source: Source) -> Block:
    """The tree of a template. Raises TemplateError."""
    parser = _Parser(source)
    block, end = parser.block(None)
    assert end.kind is Kind.END
    return block


class _Parser:
    def __init__(self, source: Source):
        self.source = source
        self.tokens = list(tokenize(source))
        self.next = 0
        self.variables: list[str] = list(PREDECLARED)
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def advance(self) -> Token:
        token = self.token
        self.next += 1
        return token

    def accept(self, kind: Kind) -> bool:
        if self.token.kind is kind:
            self.next += 1
            return True
        return False

    def word(self) -> str:
        """The name at the current token, or `""`."""
        return str(self.token.value) if self.token.kind is Kind.NAME else ""

    def unexpected(self, wanted: str) -> NoReturn:
        token = self.token
        what = f"{token.kind} {token.value!r}" if token.kind in _WORDS else token.kind
        self.source.fail(f"{what} where {wanted} should be", token.at)

    def deeper(self, at: int) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.source.fail(f"nested deeper than {_MAX_DEPTH}", at)

    # Blocks

    def block(self, opened: Token | None) -> tuple[Block, Token]:
        """Nodes up to the end, or to the `else` or `end` that belongs to `opened`.

        Returns that token; the parser then stands behind it.
        """
        nodes: list[Node] = []
        scope = len(self.variables)
        while True:
            token = self.advance()
            if token.kind is Kind.TEXT:
                nodes.append(Text(str(token.value)))
                continue
            if token.kind is Kind.END:
                if opened is not None:
                    self.source.fail(f"{opened.value} without an end", opened.at, "add {{ end }}")
                return tuple(nodes), token
            word = self.word()
            if word in ("else", "end"):
                if opened is None:
                    self.source.fail(f"{word} without an if, with or range", self.token.at)
                del self.variables[scope:]
                return tuple(nodes), self.advance()
            nodes.append(self.control(self.advance()) if word in _CONTROLS else self.action())

    def action(self) -> Action:
        word = self.word()
        if word in _UNSUPPORTED_ACTIONS:
            self.source.fail(f"{word} is not supported", self.token.at)
        pipeline = self.pipeline("a value")
        self.close()
        return Action(pipeline)

    def close(self) -> None:
        if not self.accept(Kind.CLOSE):
            self.unexpected("}}")

    def control(self, opened: Token) -> If | With | Range:
        """An `if`, `with` or `range`, whose keyword was read, up to and with its `end`."""
        self.deeper(opened.at)
        scope = len(self.variables)
        pipeline = self.pipeline(f"the condition of {opened.value}", loop=opened.value == "range")
        self.close()
        body, end = self.block(opened)
        otherwise: Block = ()
        if end.value == "else" and self.word() in _CONTROLS:
            inner = self.advance()
            if (opened.value, inner.value) != ("if", "if"):
                self.source.fail(f"else {inner.value} is not supported", inner.at, "nest it")
            # `else if` shares the `end` of its `if`.
            otherwise = (self.control(inner),)
        else:
            self.close()
            if end.value == "else":
                otherwise, end = self.block(opened)
                if end.value == "else":
                    self.source.fail("a second else", end.at)
                self.close()
        del self.variables[scope:]
        self.depth -= 1
        return _CONTROLS[str(opened.value)](pipeline, body, otherwise)

    # Pipelines

    def pipeline(self, wanted: str, *, loop: bool = False) -> Pipeline:
        """`$x := a | f b`, up to and without the closing mark."""
        names, effect = self.binding(loop=loop)
        expr = self.expression(wanted)
        # Declared only now: the value can't speak of the variable.
        self.variables += names if effect is Effect.DECLARE else ()
        return Pipeline(expr, names, effect)

    def binding(self, *, loop: bool) -> tuple[tuple[str, ...], Effect]:
        """The variables in front of `:=` or `=`, if there are any."""
        ahead = self.tokens[self.next : self.next + 4]
        kinds = [token.kind for token in ahead]
        count = 2 if kinds[:3] == [Kind.VARIABLE, Kind.COMMA, Kind.VARIABLE] else 1
        mark = 2 * count - 1
        if kinds[0] is not Kind.VARIABLE or len(kinds) <= mark:
            return (), Effect.DECLARE
        if kinds[mark] not in (Kind.DECLARE, Kind.ASSIGN):
            return (), Effect.DECLARE
        if count == 2 and not loop:
            self.source.fail("only range declares two variables", ahead[2].at)
        effect = Effect.DECLARE if kinds[mark] is Kind.DECLARE else Effect.ASSIGN
        names = tuple(str(token.value) for token in ahead[:mark:2])
        if effect is Effect.ASSIGN:
            if loop:
                self.source.fail("range with = is not supported", ahead[mark].at, "use :=")
            self.defined(ahead[0])
        self.next += mark + 1
        return names, effect

    def defined(self, token: Token) -> str:
        if token.value not in self.variables:
            known = ", ".join(dict.fromkeys(self.variables))
            self.source.fail(
                f"undefined variable {token.value}", token.at, f"there are {known} here"
            )
        return str(token.value)

    def expression(self, wanted: str) -> Expr:
        """Commands joined by pipes: each value is the last argument of the next command."""
        depth = self.depth
        value = self.command(wanted, None)
        while self.accept(Kind.PIPE):
            self.deeper(self.token.at)
            value = self.command("a function", value)
        self.depth = depth
        return value

    def command(self, wanted: str, piped: Expr | None) -> Expr:
        token = self.token
        if token.kind is Kind.NAME and token.value not in _CONSTANTS:
            name = self.function(self.advance())
            args: list[Expr] = []
            while self.token.kind not in (Kind.PIPE, Kind.RIGHT, Kind.CLOSE):
                args.append(self.operand("an argument"))
            if piped is not None:
                args.append(piped)
            return Call(token.at, name, tuple(args), piped is not None)
        if piped is not None:
            if token.kind in (Kind.CLOSE, Kind.RIGHT, Kind.END):
                self.unexpected(wanted)
            self.source.fail("only a function can take a value from |", token.at)
        value = self.operand(wanted)
        if isinstance(value, Literal) and value.value is None:
            self.source.fail("nil is not a value to print or test", token.at)
        if self.token.kind not in (Kind.PIPE, Kind.RIGHT, Kind.CLOSE):
            self.source.fail(
                "only a function can take arguments", self.token.at, "put the function's name first"
            )
        return value

    def function(self, token: Token) -> str:
        name = str(token.value)
        if name in UNSUPPORTED:
            self.source.fail(f"function {name} is not supported", token.at, UNSUPPORTED[name])
        if name not in FUNCTIONS:
            hint = f"labels are written $labels.{name}"
            self.source.fail(f"there is no function {name}", token.at, hint)
        return name

    def operand(self, wanted: str) -> Expr:
        """One argument: a literal, `.`, a field, a variable, a call in parentheses, a bare name."""
        token = self.advance()
        before = self.tokens[self.next - 2].kind
        if not token.spaced and before in (*_WORDS, Kind.DOT, Kind.RIGHT):
            self.source.fail(f"no blank before {token.value!r}", token.at)
        value: Expr
        match token.kind:
            case Kind.STRING | Kind.NUMBER:
                return self.literal(token, token.value)
            case Kind.NAME if token.value in _CONSTANTS:
                return self.literal(token, _CONSTANTS[str(token.value)])
            case Kind.NAME:
                value = Call(token.at, self.function(token), ())
            case Kind.DOT:
                return Dot(token.at)
            case Kind.FIELD:
                self.next -= 1
                value = Dot(token.at)
            case Kind.VARIABLE:
                value = Variable(token.at, self.defined(token))
            case Kind.LEFT:
                self.deeper(token.at)
                if self.binding(loop=False)[0]:
                    self.source.fail("a variable is set inside parentheses", token.at)
                value = self.expression("a value")
                if not self.accept(Kind.RIGHT):
                    self.unexpected(")")
                self.depth -= 1
            case _:
                self.next -= 1
                self.unexpected(wanted)
        return self.access(token, value)

    def literal(self, token: Token, value: str | float | bool | None) -> Literal:
        if self.token.kind is Kind.FIELD and not self.token.spaced:
            self.source.fail("a literal has no fields", self.token.at)
        return Literal(token.at, value)

    def access(self, token: Token, value: Expr) -> Expr:
        """`value` with the fields that follow it without a blank."""
        names: list[str] = []
        while self.token.kind is Kind.FIELD and (not self.token.spaced or self.token is token):
            names.append(str(self.advance().value)[1:])
        return Access(token.at, value, tuple(names)) if names else value
