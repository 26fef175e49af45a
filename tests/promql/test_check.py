"""What an expression reads: its selectors, the names behind them, and how far back."""

from __future__ import annotations

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.promql.ast import VectorSelector
from enginewatch.promql.check import FOREVER, may_give, names, referenced, selectors
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.pattern import MAX_WORDS, alternatives

MINUTE = 60_000
LOOKBACK = 5 * MINUTE
HOUR = 60 * MINUTE


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("1 + time()", {}),
        ("a", {"a": LOOKBACK}),
        ("a offset 1h", {"a": LOOKBACK + HOUR}),
        ("a offset -1m", {"a": LOOKBACK - MINUTE}),
        ("a offset -1h", {"a": 0}),
        ("rate(a[1m])", {"a": MINUTE}),
        ("rate(a[1m] offset 1h)", {"a": HOUR + MINUTE}),
        ("rate(a[1m]) + a", {"a": LOOKBACK}),
        ("rate(a[1h]) / a + b", {"a": HOUR, "b": LOOKBACK}),
        ("max_over_time(a[1h:1m])", {"a": HOUR + LOOKBACK}),
        (
            "max_over_time(rate(a[2m] offset 3m)[1h:] offset 4m)",
            {"a": HOUR + 9 * MINUTE},
        ),
        ("min_over_time(max_over_time(a[1m:])[1h:])", {"a": HOUR + MINUTE + LOOKBACK}),
        ("a @ 5", {"a": FOREVER}),
        ("max_over_time(a[1h:] @ 5)", {"a": FOREVER}),
        ("max_over_time((a @ end() + b)[1h:])", {"a": LOOKBACK, "b": HOUR + LOOKBACK}),
        ("max_over_time(max_over_time(a[1m:] @ end())[1h:])", {"a": MINUTE + LOOKBACK}),
        ("topk(scalar(k), sum by (x) (absent(a)))", {"k": LOOKBACK, "a": LOOKBACK}),
        ("{job='x'}", {None: LOOKBACK}),
        ("{__name__=~'a.*'}", {None: LOOKBACK}),
        ("{__name__=~'a|b', x='y'}", {"a": LOOKBACK, "b": LOOKBACK}),
        ("{__name__=~'a|b', __name__!='b'}", {"a": LOOKBACK}),
        ("{__name__=~'a|b', __name__='a'}", {"a": LOOKBACK}),
        ("{'a b'}", {"a b": LOOKBACK}),
        ("{__name__='', x='y'}", {"": LOOKBACK}),
    ],
)
def test_referenced(text: str, reach: dict[str | None, int]) -> None:
    assert referenced(parse_expr(text), LOOKBACK) == reach


def test_selectors_come_in_order_of_the_text_with_the_lookback_asked_for() -> None:
    expr = parse_expr("a + rate(b[1m]) * c offset 1m")
    reads = [(read.selector.name, read.reach) for read in selectors(expr, 10)]
    assert reads == [("a", 10), ("b", MINUTE), ("c", MINUTE + 10)]


def test_names_of_an_impossible_selector_are_none_at_all() -> None:
    selector = parse_expr("{__name__='a', __name__!='a'}")
    assert isinstance(selector, VectorSelector)
    assert names(selector) == frozenset()


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("up", {"up"}),
        ("", {""}),
        ("a|b|", {"a", "b", ""}),
        ("vllm:(a|b)_total", {"vllm:a_total", "vllm:b_total"}),
        ("a(_b)?", {"a", "a_b"}),
        ("(?:a|b)(c|d)?", {"a", "b", "ac", "ad", "bc", "bd"}),
        (r"a\.b", {"a.b"}),
        ("colou?r", {"color", "colour"}),
        ("a.b", None),
        ("a*", None),
        ("a+", None),
        ("a{2}", None),
        ("a??", None),
        ("[ab]", None),
        ("^a$", None),
        ("(?i)a", None),
        ("(?i:a)", None),
        (r"\d", None),
        ("(a", None),
        ("a)", None),
        ("(a|b)" * 9, None),
        ("(" * 500 + "a" + ")" * 500, None),
    ],
)
def test_alternatives(pattern: str, words: set[str] | None) -> None:
    assert alternatives(pattern) == words


@given(
    st.lists(st.sampled_from(["a", "b", "_", "|", "(", ")", "?", "(?:", ".", r"\."]), max_size=12)
)
@settings(deadline=None, max_examples=300)
def test_alternatives_are_what_the_pattern_matches(pieces: list[str]) -> None:
    pattern = "".join(pieces)
    words = alternatives(pattern)
    if words is None:
        return
    assert len(words) <= MAX_WORDS * pattern.count("|") + MAX_WORDS
    compiled = re2.compile(pattern)
    assert all(compiled.fullmatch(word) for word in words)
    near = {word + more for word in words for more in ("a", "_", ".")}
    near |= {word[:-1] for word in words if word}
    assert {word for word in near if compiled.fullmatch(word)} <= words


@pytest.mark.parametrize(
    ("text", "gives"),
    [
        ("there", True),
        ("gone", False),
        ('{__name__=~"gone|there"}', True),
        ('{__name__=~"gone|missing"}', False),
        ('{job="a"}', True),
        ("rate(gone[5m])", False),
        ("sum by (a) (gone)", False),
        ("topk(NaN, gone)", True),
        ("topk(3, gone)", False),
        ("topk(scalar(gone), there)", True),
        ("gone + there", False),
        ("gone or there", True),
        ("there unless gone", True),
        ("gone unless there", False),
        ("absent(gone)", True),
        ("absent_over_time(gone[5m])", True),
        ("vector(scalar(gone))", True),
        ("count_over_time(gone[5m:1m])", False),
        ("(gone > 1) and there", False),
        ("1 + 1", True),
        ("time()", True),
    ],
)
def test_what_can_give_nothing_is_known_without_evaluating(text: str, gives: bool) -> None:
    assert may_give(parse_expr(text), {"there"}.__contains__) is gives
