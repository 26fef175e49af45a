"""Whatever the text, only PromQLError comes out, and what parses prints and parses again."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.expressions import CORPUS

from enginewatch.promql.ast import Expr
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.lexer import Kind, tokenize
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.printer import format_expr

PIECES = (
    *sorted({token.text for text in CORPUS for token in tokenize(text) if token.text}),
    *("\\", "\x00", "\u00a0", "\u201c", "\ud800", "😀", "`", '"', "!", "9" * 400, "#", "\r\n"),
    *("group_left", "@", "1e", "0x", "5mm", "</", "fill(", "anchored", "1_", "\\xff"),
)


def survives(text: str) -> None:
    parsed = outcome(text)
    if isinstance(parsed, PromQLError):
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert 1 <= parsed.line <= len(lines)
        assert parsed.column >= 1
        assert 0 < len(parsed.message) <= 300
        assert "^" in parsed.excerpt()
    else:
        assert parse_expr(format_expr(parsed)) == parsed


def outcome(text: str) -> Expr | PromQLError:
    try:
        return parse_expr(text)
    except PromQLError as failure:
        return failure


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=400)
def test_arbitrary_text(text: str) -> None:
    survives(text)


@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from(["", " "]))
@settings(deadline=None, max_examples=800)
def test_arbitrary_tokens(pieces: list[str], between: str) -> None:
    survives(between.join(pieces))


@given(st.data(), st.sampled_from(CORPUS))
@settings(deadline=None, max_examples=800)
def test_mutations_of_valid_expressions(data: st.DataObject, text: str) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 4)))
        patch = data.draw(st.just("") | st.sampled_from(PIECES) | st.text(max_size=2))
        text = text[:start] + patch + text[end:]
    survives(text)


@given(st.text(max_size=60))
@example("a[b:c]{d:e}:f")
@example('{"unterminated')
@settings(deadline=None, max_examples=300)
def test_tokens_tile_the_text(text: str) -> None:
    tokens = tokenize(text)
    assert [t.kind for t in tokens[:-1] if t.kind in (Kind.END, Kind.BAD)] == []
    assert tokens[-1].kind in (Kind.END, Kind.BAD)
    at = 0
    for token in tokens:
        gap = text[at : token.start]
        assert at <= token.start <= token.end <= len(text)
        assert gap.startswith("#") or "#" in gap or gap.strip(" \t\r\n") == ""
        if token.kind is not Kind.BAD:
            assert text[token.start : token.end] == token.text
        at = token.end


def test_long_hostile_texts_are_answered_at_once() -> None:
    for text in (
        "1" * 200_000 + "x",
        "1_" * 100_000,
        "1m" * 100_000 + "!",
        '"' + "\\a" * 100_000,
        "a" * 200_000 + "(",
        "#" * 200_000,
        "a{" + "b='c'," * 20_000,
        "sum by (" + "a," * 50_000,
        " " * 200_000 + ")",
    ):
        survives(text)
