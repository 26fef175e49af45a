"""PromQL text to a checked syntax tree, with Prometheus 3's grammar and precedence.

A precedence climber over tokens. What Prometheus knows and this project does
not support is refused by name, so that a rule file fails when it is loaded and
not when it should have fired.
"""

from __future__ import annotations

import difflib
from typing import Final, NamedTuple, NoReturn, TypeVar

from enginewatch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Expr,
    NumberLiteral,
    Paren,
    Position,
    StringLiteral,
    Unary,
    ValueType,
    VectorMatching,
)
from enginewatch.promql.cursor import Cursor
from enginewatch.promql.grammar import (
    LABEL_NAME,
    NEVER_LABELS,
    NEVER_METRICS,
    PRECEDENCE,
    SET_OPERATORS,
    UNARY_OPERAND,
)
from enginewatch.promql.lexer import Kind, Token
from enginewatch.promql.selectors import (
    number_value,
    parse_selector,
    parse_suffixes,
    string_value,
)
from enginewatch.promql.semantics import (
    check_aggregate,
    check_binary,
    check_call,
    check_unary,
)
from enginewatch.promql.signatures import AGGREGATES, FUNCTIONS, REFUSED

MAX_DEPTH: Final = 128
"""Levels of nesting, far more than people write and few enough for recursion over the tree."""

_CLAUSES: Final = frozenset({"and", "by", "offset", "or", "unless", "without"}) | NEVER_METRICS
_FILLS: Final = frozenset({"fill", "fill_left", "fill_right"})
_AN_EXPRESSION: Final = "an expression"
_NOT_OPERATORS: Final = {
    "=": "write == to compare",
    "=~": "patterns go between braces: {label=~...}",
    "!~": "patterns go between braces: {label!~...}",
}

_Node = TypeVar("_Node", bound=Expr)


def parse_expr(text: str, *, experimental: bool = False) -> Expr:
    """The syntax tree of `text`, its types, arity and vector matching checked.

    `experimental` admits the gated functions of `signatures`, for conformance
    runs. Raises PromQLError with line and column.
    """
    cursor = Cursor(text)
    if cursor.ended:
        cursor.fail("the expression is empty", cursor.token)
    expr = _Parser(cursor, experimental).expression()
    if not cursor.ended:
        hint = _NOT_OPERATORS.get(cursor.token.text, "")
        cursor.unexpected("an operator or the end of the expression", hint=hint)
    return expr


class _Modifiers(NamedTuple):
    """What stands between a binary operator and its right side."""

    return_bool: bool
    matching: VectorMatching | None
    pos: Position


class _Parser:
    def __init__(self, cursor: Cursor, experimental: bool):
        self._cursor = cursor
        self._experimental = experimental
        self._open = 0

    def expression(self, floor: int = 1) -> Expr:
        """An operand and all operators after it that bind at least as tightly as `floor`."""
        self._open += 1
        if self._open > MAX_DEPTH:
            self._too_deep()
        left = self._operand()
        while True:
            token = self._cursor.token
            op = token.text.lower() if token.kind in (Kind.MARK, Kind.WORD) else ""
            precedence = PRECEDENCE.get(op, 0)
            if precedence < floor:
                break
            self._refuse_trim(self._cursor.advance())
            modifiers = self._modifiers(token.start)
            right = self.expression(precedence if op == "^" else precedence + 1)
            left = self._binary(op, left, right, modifiers)
        self._open -= 1
        return left

    def _operand(self) -> Expr:
        cursor = self._cursor
        token = cursor.token
        if cursor.at("-") or cursor.at("+"):
            return self._signed()
        expr: Expr
        if token.kind in (Kind.NUMBER, Kind.DURATION):
            expr = self._number()
        elif token.kind is Kind.STRING:
            cursor.advance()
            expr = StringLiteral(value=string_value(cursor, token), pos=cursor.since(token.start))
        elif cursor.at("("):
            expr = self._paren()
        elif cursor.at("{"):
            expr = parse_selector(cursor)
        elif token.kind is Kind.WORD:
            expr = self._named()
        else:
            cursor.unexpected(_AN_EXPRESSION)
        return parse_suffixes(cursor, expr)

    def _signed(self) -> Expr:
        sign = self._cursor.advance()
        operand = self.expression(UNARY_OPERAND)
        pos = self._cursor.since(sign.start)
        if isinstance(operand, NumberLiteral):
            # One NaN object throughout, so that equal trees compare equal.
            value = -operand.value if sign.text == "-" and operand.value == operand.value else None
            return NumberLiteral(value=operand.value if value is None else value, pos=pos)
        node = Unary(op=sign.text, expr=operand, pos=pos)
        check_unary(node, self._cursor.text)
        return self._bounded(node)

    def _number(self) -> NumberLiteral:
        token = self._cursor.advance()
        value = number_value(self._cursor, token)
        return NumberLiteral(value=value, pos=self._cursor.since(token.start))

    def _paren(self) -> Paren:
        opened = self._cursor.advance()
        inner = self.expression()
        self._cursor.close(")", opened, 'an operator or ")"')
        return self._bounded(Paren(expr=inner, pos=self._cursor.since(opened.start)))

    def _named(self) -> Expr:
        """What starts with a word: a number, an aggregation, a call or a selector."""
        cursor = self._cursor
        word = cursor.word()
        called = cursor.following.kind is Kind.MARK and cursor.following.text == "("
        if word in ("inf", "nan"):
            return self._number()
        if word in AGGREGATES and (called or _opens_grouping(cursor.following)):
            return self._aggregate()
        if word in _FILLS and called:
            cursor.fail(f'the modifier "{word}" is not supported: it is experimental', cursor.token)
        if word in NEVER_METRICS or (word in _CLAUSES and called):
            cursor.unexpected(_AN_EXPRESSION, hint=_clause_hint(word))
        return self._call() if called else parse_selector(cursor)

    def _call(self) -> Call:
        cursor = self._cursor
        token = cursor.advance()
        signature = FUNCTIONS.get(token.text)
        reason = REFUSED.get(token.text) if signature is None else signature.gate
        if reason and not (signature and self._experimental):
            cursor.fail(f"the function {token.text} is not supported: {reason}", token)
        if signature is None:
            near = difflib.get_close_matches(token.text, [*FUNCTIONS, *AGGREGATES], n=1)
            hint = f"did you mean {near[0]}?" if near else ""
            cursor.fail(f'unknown function "{token.text}"', token, hint=hint)
        args = self._arguments()
        node = Call(
            func=token.text, args=args, returns=signature.returns, pos=cursor.since(token.start)
        )
        check_call(node, cursor.text)
        return self._bounded(node)

    def _arguments(self) -> tuple[Expr, ...]:
        cursor = self._cursor
        opened = cursor.expect("(", '"("')
        args: list[Expr] = []
        while not (cursor.at(")") and not args):
            args.append(self.expression())
            if not cursor.take(","):
                break
        cursor.close(")", opened, '"," or ")"')
        return tuple(args)

    def _aggregate(self) -> Aggregate:
        cursor = self._cursor
        token = cursor.advance()
        signature = AGGREGATES[token.text.lower()]
        if signature.gate and not self._experimental:
            cursor.fail(
                f"the aggregation {signature.name} is not supported: {signature.gate}", token
            )
        grouped = self._grouping()
        args = self._arguments()
        grouped = grouped or self._grouping()
        pos = cursor.since(token.start)
        wanted = 1 if signature.param is None else 2
        if len(args) != wanted:
            noun = "argument" if wanted == 1 else "arguments"
            cursor.fail(f"{signature.name} takes {wanted} {noun}, {len(args)} given", pos)
        word, labels = grouped or ("by", ())
        node = Aggregate(
            op=signature.name,
            expr=args[-1],
            param=args[0] if wanted == 2 else None,
            grouping=labels,
            without=word == "without",
            pos=pos,
        )
        check_aggregate(node, cursor.text)
        return self._bounded(node)

    def _grouping(self) -> tuple[str, tuple[str, ...]] | None:
        """`by (...)` or `without (...)`, if it is next."""
        if not _opens_grouping(self._cursor.token):
            return None
        return self._cursor.advance().text.lower(), self._labels()

    def _labels(self) -> tuple[str, ...]:
        """A list of label names in parentheses; it may be empty and may end in a comma."""
        cursor = self._cursor
        opened = cursor.expect("(", '"("')
        labels: list[str] = []
        while not cursor.at(")"):
            labels.append(self._label())
            if not cursor.take(","):
                break
        cursor.close(")", opened, '"," or ")"')
        return tuple(labels)

    def _label(self) -> str:
        cursor = self._cursor
        token = cursor.token
        if token.kind is Kind.STRING:
            cursor.advance()
            name = string_value(cursor, token)
            if not name:
                cursor.fail("a label name must not be empty", token)
            return name
        if token.kind is not Kind.WORD or token.text.lower() in NEVER_LABELS:
            cursor.unexpected("a label name")
        if not LABEL_NAME.fullmatch(token.text):
            cursor.fail(f'"{token.text}" is not a label name', token)
        cursor.advance()
        return token.text

    def _modifiers(self, start: int) -> _Modifiers:
        """`bool`, `on|ignoring (...)`, `group_left|group_right (...)`, each of them optional.

        `start` is where the operator before them begins.
        """
        cursor = self._cursor
        return_bool = cursor.word() == "bool"
        if return_bool:
            cursor.advance()
        matching: VectorMatching | None = None
        if cursor.word() in ("on", "ignoring"):
            on = cursor.advance().text.lower() == "on"
            labels = self._labels()
            card = Cardinality.ONE_TO_ONE
            include: tuple[str, ...] = ()
            if cursor.word() in ("group_left", "group_right"):
                left = cursor.advance().text.lower() == "group_left"
                card = Cardinality.MANY_TO_ONE if left else Cardinality.ONE_TO_MANY
                include = self._labels() if cursor.at("(") else ()
            matching = VectorMatching(card=card, on=on, labels=labels, include=include)
        return _Modifiers(return_bool, matching, cursor.since(start))

    def _binary(self, op: str, left: Expr, right: Expr, modifiers: _Modifiers) -> Binary:
        matching = modifiers.matching
        if left.type is not ValueType.VECTOR or right.type is not ValueType.VECTOR:
            matching = None
        else:
            matching = matching or VectorMatching()
            if op in SET_OPERATORS and matching.card is Cardinality.ONE_TO_ONE:
                matching = VectorMatching(
                    card=Cardinality.MANY_TO_MANY, on=matching.on, labels=matching.labels
                )
        node = Binary(
            op=op,
            left=left,
            right=right,
            return_bool=modifiers.return_bool,
            matching=matching,
            pos=self._cursor.since(left.pos.start),
        )
        check_binary(node, modifiers.matching, modifiers.pos, self._cursor.text)
        return self._bounded(node)

    def _refuse_trim(self, op: Token) -> None:
        slash = self._cursor.token
        if op.text in "<>" and slash.text == "/" and slash.start == op.end:
            self._cursor.fail(
                f'the trim operator "{op.text}/" is not supported: it is experimental', op
            )

    def _bounded(self, node: _Node) -> _Node:
        if node.height > MAX_DEPTH:
            self._too_deep()
        return node

    def _too_deep(self) -> NoReturn:
        self._cursor.fail(
            f"the expression is nested more than {MAX_DEPTH} levels deep", self._cursor.token
        )


def _opens_grouping(token: Token) -> bool:
    return token.kind is Kind.WORD and token.text.lower() in ("by", "without")


def _clause_hint(word: str) -> str:
    if word.startswith("group_"):
        return f"{word} goes after on(...) or ignoring(...)"
    return f'a metric of that name is written {{"{word}"}}' if word in NEVER_METRICS else ""
