"""What is wrong with an expression, where, and what would be right."""

from __future__ import annotations

import pytest

from enginewatch.errors import EnginewatchError
from enginewatch.promql.ast import Position
from enginewatch.promql.errors import EvaluationError, PromQLError
from enginewatch.promql.parser import parse_expr

END = "unexpected end of expression"
MORE = "expected an operator or the end of the expression"
NOT_RE2 = "not a valid RE2 regular expression"
EXPERIMENTAL = "it is experimental in Prometheus 3, off unless a server enables it"


def failure_of(text: str) -> PromQLError:
    with pytest.raises(PromQLError) as caught:
        parse_expr(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "the expression is empty"),
        (" # only a comment\n", 2, 1, "the expression is empty"),
        ("a + )", 1, 5, 'unexpected ")" after "+", expected an expression'),
        ("a +", 1, 4, f'{END} after "+", expected an expression'),
        (
            "sum(\n  a\n",
            3,
            1,
            f'{END} after "a", expected ")" to close the "(" at 1:4',
        ),
        (
            'a{b="c"',
            1,
            8,
            'unexpected end of expression after "c", expected "}" to close the "{" at 1:2',
        ),
        ("a[5m", 1, 5, f'{END} after "5m", expected "]" to close the "[" at 1:2'),
        ("(a]", 1, 3, 'unexpected "]" after "a", expected an operator or ")"'),
        ("a b", 1, 3, f'unexpected "b" after "a", {MORE}'),
        ("a =~ 'b'", 1, 3, f'unexpected "=~" after "a", {MORE}'),
        ("a{b}", 1, 4, 'unexpected "}" after "b", expected one of = != =~ !~'),
        ("a{b=c}", 1, 5, 'unexpected "c" after "=", expected a quoted string'),
        ("a{'b' 'c'}", 1, 7, "unexpected 'c' after 'b', expected one of = != =~ !~"),
        ("a{b='c' d='e'}", 1, 9, 'unexpected "d" after \'c\', expected "," or "}"'),
        ("a{5='c'}", 1, 3, 'unexpected "5" after "{", expected a label name or "}"'),
        ("{''='c'}", 1, 2, "a name must not be empty"),
        ("a{b=~'('}", 1, 6, f"{NOT_RE2}: missing ): ("),
        ("a{b=~'x)(y'}", 1, 6, f"{NOT_RE2}: unexpected ): x)(y"),
        ("a{__name__='b'}", 1, 1, "the metric name must not be given twice: 'a' and 'b'"),
        (
            "1 + {b=~'.*'}",
            1,
            5,
            "a selector needs at least one matcher that does not match the empty string",
        ),
        ("a[b]", 1, 3, 'unexpected "b" after "[", expected a duration such as 5m'),
        ("a[0s]", 1, 3, "a range must be at least 1ms"),
        ("a[0.0001]", 1, 3, "a range must be at least 1ms"),
        ("a[5m:0]", 1, 6, "a step must be at least 1ms"),
        ("a[300y]", 1, 3, "the duration 300y is out of range, the longest is about 292 years"),
        ("a offset 1e30", 1, 10, "the duration is out of range, the longest is about 292 years"),
        ("a[5s4m]", 1, 3, "'5s4m' is not a duration: write it like 30s, 5m or 1h30m"),
        ("(a)[5m]", 1, 4, "a range belongs directly after a selector"),
        ("a offset 1m[5m]", 1, 12, 'a range goes before offset and "@"'),
        ("a offset 1m offset 1m", 1, 13, "offset must not be given twice"),
        ("a @ 1 @ 2", 1, 7, '"@" must not be given twice'),
        ("sum(a) offset 1m", 1, 8, '"offset" belongs after a selector, a range or a subquery'),
        ("1 @ 5", 1, 3, '"@" belongs after a selector, a range or a subquery'),
        (
            "a @ foo",
            1,
            5,
            'unexpected "foo" after "@", expected a Unix time in seconds, start() or end()',
        ),
        ("a @ 1e300", 1, 5, "the time is out of range"),
        ("5[5m:]", 1, 1, "a subquery needs an instant vector, not a scalar"),
        ("1 < 2", 1, 3, "a comparison between scalars needs the bool modifier"),
        ("a + bool b", 1, 3, '"bool" belongs to comparisons, not to "+"'),
        ("a and 1", 1, 7, '"and" combines instant vectors, not scalars'),
        ("a + a[5m]", 1, 5, '"+" takes scalars and instant vectors, not a range vector'),
        (
            "a and on(x) group_left b",
            1,
            3,
            '"and" matches many to many and takes no group modifier',
        ),
        (
            "a + on(x) group_left(x) b",
            1,
            3,
            "the label 'x' must not be in both on() and the group modifier",
        ),
        (
            "a * on(x) 1",
            1,
            3,
            "on, ignoring and group modifiers belong between two instant vectors",
        ),
        ("a + group_left b", 1, 5, 'unexpected "group_left" after "+", expected an expression'),
        ("a * on(x) group_left (b + c)", 1, 25, 'unexpected "+" after "b", expected "," or ")"'),
        ("-a[5m]", 1, 2, 'unary "-" needs a scalar or an instant vector, not a range vector'),
        ("rat(a[5m])", 1, 1, 'unknown function "rat"'),
        ("rate(a)", 1, 6, "argument 1 of rate must be a range vector, not an instant vector"),
        ("abs(a[5m])", 1, 5, "argument 1 of abs must be an instant vector, not a range vector"),
        ("1 + time(1)", 1, 5, "time takes no arguments, 1 given"),
        ("abs()", 1, 1, "abs takes 1 argument, 0 given"),
        ("round(a, 1, 2)", 1, 1, "round takes 1 or 2 arguments, 3 given"),
        ("label_join(a, 'b')", 1, 1, "label_join takes at least 3 arguments, 2 given"),
        ("clamp(a)", 1, 1, "clamp takes 3 arguments, 1 given"),
        ("abs(a,)", 1, 7, 'unexpected ")" after ",", expected an expression'),
        ("sum()", 1, 1, "sum takes 1 argument, 0 given"),
        ("topk(a)", 1, 1, "topk takes 2 arguments, 1 given"),
        ("topk(a, a)", 1, 6, "the parameter of topk must be a scalar, not an instant vector"),
        ("sum(1)", 1, 5, "what sum aggregates must be an instant vector, not a scalar"),
        ("sum by (a:b) (c)", 1, 9, '"a:b" is not a label name'),
        ("sum by (without) (c)", 1, 9, 'unexpected "without" after "(", expected a label name'),
        ("sum by (a", 1, 10, f'{END} after "a", expected ")" to close the "(" at 1:8'),
        ("sum by ('') (c)", 1, 9, "a label name must not be empty"),
        (
            "label_replace(a, 'b', 'c', 'd', '(')",
            1,
            33,
            f"invalid regular expression in label_replace(): {NOT_RE2}: missing ): (",
        ),
        ("1h30", 1, 1, "bad number or duration 1h30"),
        ("a > 0b11", 1, 5, "bad number or duration 0b11"),
        ("1e999", 1, 1, "the number 1e999 is out of range"),
        ('a{b="c}', 1, 5, 'unterminated string, expected a closing "'),
        ('"a\nb"', 1, 1, 'unterminated string, expected a closing "'),
        (r'"\xff"', 1, 1, "the string's escapes do not make valid UTF-8"),
        (r'"\400"', 1, 1, r"the escape \400 is more than a byte"),
        (r'"\ud800"', 1, 1, r"the escape \ud800 is not a Unicode character"),
        ("a ! b", 1, 3, 'unexpected "!", expected != or !~'),
        ("a && b", 1, 3, "unexpected character '&'"),
        ("a \u00d7 b", 1, 3, r"unexpected character '\xd7' (U+00D7 MULTIPLICATION SIGN)"),
        ("a\n+\r\n\tb c", 3, 4, f'unexpected "c" after "b", {MORE}'),
    ],
)
def test_what_is_wrong_and_where(text: str, line: int, column: int, message: str) -> None:
    failure = failure_of(text)
    assert (failure.line, failure.column, failure.message) == (line, column, message)
    assert str(failure).startswith(f"{line}:{column}: {message}")
    assert failure.expr_text == text


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("histogram_count(a)", 1, "the function histogram_count is not supported: it needs native"),
        (
            "1 + mad_over_time(a[5m])",
            5,
            f"the function mad_over_time is not supported: {EXPERIMENTAL}",
        ),
        (
            "holt_winters(a[5m], 1, 1)",
            1,
            "the function holt_winters is not supported: Prometheus 3",
        ),
        ("info(a)", 1, f"the function info is not supported: {EXPERIMENTAL}"),
        ("limitk(1, a)", 1, f"the aggregation limitk is not supported: {EXPERIMENTAL}"),
        ("step()", 1, f"the function step is not supported: {EXPERIMENTAL}"),
        ("a[5m + 1m]", 6, "arithmetic in a duration is not supported: it is experimental"),
        ("a[5m:1m * 2]", 9, "arithmetic in a duration is not supported: it is experimental"),
        ("a[step()]", 3, "arithmetic in a duration is not supported: it is experimental"),
        ("a[-5m]", 3, "arithmetic in a duration is not supported: it is experimental"),
        ("a offset (5m)", 10, "arithmetic in a duration is not supported: it is experimental"),
        ("a[5m] anchored", 7, 'the modifier "anchored" is not supported: it is experimental'),
        ("a smoothed", 3, 'the modifier "smoothed" is not supported: it is experimental'),
        ("a + fill(0) b", 5, 'the modifier "fill" is not supported: it is experimental'),
        ("a </ b", 3, 'the trim operator "</" is not supported: it is experimental'),
        ("a >/ b", 3, 'the trim operator ">/" is not supported: it is experimental'),
    ],
)
def test_what_prometheus_knows_is_refused_by_name(text: str, column: int, message: str) -> None:
    failure = failure_of(text)
    assert failure.column == column
    assert failure.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("rat(a[5m])", "did you mean rate?"),
        ("zzzz(a)", ""),
        ("1 == 2", "write == bool"),
        ("a = b", "write == to compare"),
        ("a !~ 'b'", "patterns go between braces: {label!~...}"),
        ("bool + a", 'a metric of that name is written {"bool"}'),
        ("a + group_left b", "group_left goes after on(...) or ignoring(...)"),
        ("abs(a)[5m]", "of other expressions, take a subquery such as [5m:1m]"),
        ("a{b='c' or d='e'}", '"or" between matchers is VictoriaMetrics\' own'),
    ],
)
def test_a_remedy_is_named_where_there_is_one(text: str, hint: str) -> None:
    failure = failure_of(text)
    assert failure.hint == hint


def test_excerpt_underlines_the_culprit_in_its_line() -> None:
    assert failure_of("a +\n\tfoo(b) + c").excerpt() == " foo(b) + c\n ^^^"
    assert failure_of("sum(a").excerpt() == "sum(a\n     ^"
    assert failure_of('a{b=~"("}').excerpt() == 'a{b=~"("}\n     ^^^'
    long = failure_of("a + " * 50 + "! b" + " + b" * 50).excerpt().splitlines()
    assert [len(line) <= 120 for line in long] == [True, True]
    assert long[0][long[1].index("^")] == "!"
    # The culprit goes on to the next line; the carets do not.
    assert failure_of("sum(\n1 +\n2)").excerpt() == "1 +\n^^^"


def test_errors_without_a_place_say_only_what() -> None:
    failure = EvaluationError("many matches on the left side")
    assert isinstance(failure, PromQLError)
    assert isinstance(failure, EnginewatchError)
    assert str(failure) == "many matches on the left side"
    assert failure.excerpt() == ""
    placed = EvaluationError.at("many matches", "a +\nb", Position(4, 5))
    assert str(placed) == "2:1: many matches"
