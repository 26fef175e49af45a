"""Matchers are read as Alertmanager reads them; what is none says where it goes wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.config import parse_matchers
from enginewatch.model import Matcher, MatchOp, quote

A = Matcher("a", MatchOp.EQUAL, "b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a="b"', [A]),
        ("a=b", [A]),
        (' a = "b" ', [A]),
        ('{a="b"}', [A]),
        ('{a="b",}', [A]),
        ("{}", []),
        ('a="b",c!~"d|e"', [A, Matcher("c", MatchOp.NOT_REGEX, "d|e")]),
        ("a=~x|y", [Matcher("a", MatchOp.REGEX, "x|y")]),
        ('a=""', [Matcher("a", MatchOp.EQUAL, "")]),
        (r'a="q\"b\\s\nn"', [Matcher("a", MatchOp.EQUAL, 'q"b\\s\nn')]),
        (r'a=~"gpu\d+"', [Matcher("a", MatchOp.REGEX, r"gpu\d+")]),
        ('a="x,y}"', [Matcher("a", MatchOp.EQUAL, "x,y}")]),
        ('"a b"!="c"', [Matcher("a b", MatchOp.NOT_EQUAL, "c")]),
    ],
)
def test_matchers(text: str, expected: list[Matcher]) -> None:
    assert parse_matchers(text) == tuple(expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a label's name should be where it ends"),
        ("a", "one of = != =~ !~ should be where it ends"),
        ("a=", "a value, best in double quotes should be where it ends"),
        ("a==b", "a value, best in double quotes should be where '=b' stands"),
        ('a="b" c="d"', "a comma, or the end should be where"),
        ('a="b', "a value, best in double quotes should be where '\"b' stands"),
        ("{a=b", "a brace is left open"),
        ("a=b}", "a brace is closed that was not opened"),
        ('a=~"("', "not a valid RE2 regular expression"),
    ],
)
def test_what_is_no_matcher(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_matchers(text)


values = st.text(st.characters(codec="utf-8"), max_size=8)
matchers = st.builds(
    Matcher,
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True),
    st.sampled_from([MatchOp.EQUAL, MatchOp.NOT_EQUAL]),
    values,
)


@given(st.lists(matchers, max_size=4))
@settings(deadline=None, max_examples=100)
def test_any_matchers_come_back_as_they_were_written(given: list[Matcher]) -> None:
    text = "{" + ",".join(f"{m.name}{m.op}{quote(m.value)}" for m in given) + "}"
    assert parse_matchers(text) == tuple(given)


@given(st.text(alphabet='ab="!~{},\\ \n', max_size=12))
@settings(deadline=None, max_examples=200)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_matchers(text)
    except ValueError:
        return
    assert all(isinstance(matcher, Matcher) for matcher in found)
