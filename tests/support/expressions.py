"""Expressions to test with: a corpus of the kind rule packs hold, and generated syntax trees."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from enginewatch.model import METRIC_NAME, Matcher, MatchOp
from enginewatch.promql.ast import (
    Aggregate,
    AtAnchor,
    Binary,
    Call,
    Cardinality,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorMatching,
    VectorSelector,
)
from enginewatch.promql.grammar import COMPARISONS, PRECEDENCE, SET_OPERATORS
from enginewatch.promql.signatures import AGGREGATES, FUNCTIONS

CORPUS: Final = (
    "up",
    "up == 0",
    "absent(up{job='vllm'})",
    'vllm:num_requests_running{engine="0"}',
    'sum by (instance, model) (vllm:num_requests_waiting{job=~"vllm|sglang"})',
    "rate(vllm:generation_tokens_total[1m])",
    "sum without (engine) (rate(vllm:prompt_tokens_total[30s]))",
    "histogram_quantile(0.99, sum by (le, instance) (rate(vllm:ttft_seconds_bucket[5m])))",
    "increase(vllm:num_preemptions_total[5m]) > 10",
    "(vllm:num_requests_running > 0) and on(job) (rate(vllm:generation_tokens_total[1m]) == 0)",
    "changes(vllm:kv_cache_usage_perc[2m]) == 0 and vllm:num_requests_running > 0",
    "max_over_time(engine:inter_token_latency_seconds:mean30s[10m:30s])",
    "engine:inter_token_latency_seconds:mean30s > 3 * engine:inter_token_latency_seconds:quiet",
    "avg_over_time(engine:queue_depth:sum[1h] offset 1d)",
    "engine:tokens_per_second:rate1m / ignoring(gpu) group_left(uuid) gpu_info",
    "a * on(instance, job) group_right(model) b",
    r'label_replace(up, "host", "$1", "instance", "([^:]+):[0-9]+")',
    'label_join(up, "where", "/", "job", "instance")',
    "topk(3, rate(http_requests_total[5m]))",
    "bottomk by (job) (1, up)",
    "quantile(0.9, engine:queue_depth:sum)",
    'count_values("version", build_info)',
    "count(up) by (job)",
    "group(up) without (instance,)",
    "stddev(x) / stdvar(x)",
    "scalar(sum(up)) + 1",
    "vector(1)",
    "time() - process_start_time_seconds < 5m",
    "time() - timestamp(up) > 60",
    "clamp(x, 0, 1) + clamp_max(y, 5) - clamp_min(z, -5)",
    "round(x, 0.1)",
    "round(x)",
    "predict_linear(node_filesystem_free_bytes[1h], 4 * 3600) < 0",
    "quantile_over_time(0.5, x[5m])",
    "deriv(x[5m]) + delta(x[5m]) + idelta(x[5m])",
    "irate(x[1m]) or rate(x[5m])",
    "x unless on(instance) y",
    "x unless y and z or w",
    "1 + 2 * 3 ^ 2 ^ 0.5 - -4 % 5",
    "-x ^ 2",
    "-(x + y)",
    "+x",
    "--x",
    "2 ^ -x * y",
    "x atan2 y",
    "1 == bool 2",
    "x > bool 0",
    "x >= bool on(job) y",
    'x{a="b", c!="d", e=~"f.*", g!~"h|i"}',
    '{__name__=~"vllm:.*_total", job="x"}',
    "x offset 5m",
    "x offset -5m",
    "x[5m] offset 1h30m",
    "x[300]",
    "x @ 1609746000",
    "x[5m] @ start()",
    "x @ end() offset 1m",
    "x offset 1m @ 10.5",
    "rate(x[5m])[1h:] @ 1 offset 2h",
    "min_over_time((x > 0)[5m:1m])",
    "sum(rate(x[5m])) by (job) / on(job) group_left sum(y) by (job)",
    "day_of_week() + hour(vector(time())) + minute(x)",
    "absent_over_time(x[5m])",
    "present_over_time(x[5m])",
    "resets(x[5m]) > 0",
    "sgn(x) + abs(x) + ceil(x) + floor(x) + exp(x) + ln(x) + log2(x) + log10(x) + sqrt(x)",
    "deg(x) + rad(x) + pi()",
    "sort_desc(x)",
    "0x1F + 0777 + 1e3 + .5 + 5. + Inf - NaN",
    '"a string"',
    "'it\\'s'",
    "sum",
    'count{by="x"} + offset',
    "sum by (by, on, bool, sum) (up)",
    "x # a comment\n + # another\n y",
    "SUM BY (job) (up)",
    '{"a", __name__=~"a.*"}',
    '{__name__="a", __name__!="b"}',
    "1 + on() 2",
    "a > on() group_left() 1",
    "a AND b OR c UNLESS d",
)


def strip_parens(expr: Expr) -> Expr:
    """The tree without Paren nodes: what it means."""
    changes: dict[str, Any] = {}
    match expr:
        case Paren():
            return strip_parens(expr.expr)
        case Unary() | Subquery():
            changes = {"expr": strip_parens(expr.expr)}
        case Aggregate():
            param = None if expr.param is None else strip_parens(expr.param)
            changes = {"expr": strip_parens(expr.expr), "param": param}
        case Binary():
            changes = {"left": strip_parens(expr.left), "right": strip_parens(expr.right)}
        case Call():
            changes = {"args": tuple(map(strip_parens, expr.args))}
    return replace(expr, **changes)


_texts = st.text(max_size=6) | st.sampled_from(["vllm", "0", "a\\b", '"', "\n", "`", "\x00"])
_words = st.sampled_from(["job", "le", "by", "on", "sum", "bool", "without", "inf", "a.b", "é"])
_label_names = _words | st.just(METRIC_NAME) | st.text(min_size=1, max_size=4)
_metric_names = _label_names | st.sampled_from(["vllm:x", "offset", "fill", "start", "group_left"])
_spans = st.integers(1, 10**9) | st.sampled_from([1, 1000, 300_000, 86_400_000, 7 * 86_400_000])
_offsets = st.just(0) | _spans | _spans.map(lambda span: -span)
_times = st.none() | st.sampled_from(AtAnchor) | st.integers(-(10**13), 10**13)
_numbers = st.floats(allow_nan=False) | st.just(math.nan) | st.integers(-5, 5).map(float)
_literals = st.builds(NumberLiteral, value=_numbers)
_strings = st.builds(StringLiteral, value=_texts)


@st.composite
def _selectors(draw: st.DrawFn) -> VectorSelector:
    name = draw(st.just("") | _metric_names)
    first = name or draw(_metric_names)
    matchers = [Matcher(METRIC_NAME, MatchOp.EQUAL, first)]
    for label in draw(st.lists(_label_names, max_size=2)):
        op = draw(st.sampled_from(MatchOp))
        is_pattern = op in (MatchOp.REGEX, MatchOp.NOT_REGEX)
        value = st.sampled_from(["a|b", ".*", "", "(x)?", r"\d+"]) if is_pattern else _texts
        matchers.append(Matcher(label, op, draw(value)))
    return VectorSelector(
        name=name, matchers=tuple(matchers), offset=draw(_offsets), at=draw(_times)
    )


@st.composite
def _matchings(draw: st.DrawFn, op: str) -> VectorMatching:
    on = draw(st.booleans())
    labels = tuple(draw(st.lists(_label_names, max_size=2)))
    if op in SET_OPERATORS:
        return VectorMatching(card=Cardinality.MANY_TO_MANY, on=on, labels=labels)
    cards = [Cardinality.ONE_TO_ONE, Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY]
    card = draw(st.sampled_from(cards))
    include: tuple[str, ...] = ()
    if card is not Cardinality.ONE_TO_ONE:
        include = tuple(draw(st.lists(_label_names.filter(lambda n: n not in labels), max_size=2)))
    return VectorMatching(card=card, on=on, labels=labels, include=include)


@st.composite
def _binaries(draw: st.DrawFn, left: ValueType, right: ValueType, depth: int) -> Binary:
    both = left is right is ValueType.VECTOR
    op = draw(st.sampled_from([op for op in PRECEDENCE if both or op not in SET_OPERATORS]))
    comparison = op in COMPARISONS
    must = comparison and left is right is ValueType.SCALAR
    return Binary(
        op=op,
        left=draw(trees(left, depth)),
        right=draw(trees(right, depth)),
        return_bool=must or (comparison and draw(st.booleans())),
        matching=draw(_matchings(op)) if both else None,
    )


@st.composite
def _calls(draw: st.DrawFn, returns: ValueType, depth: int) -> Call:
    choices = [f for f in FUNCTIONS.values() if f.returns is returns and not f.gate]
    signature = draw(st.sampled_from(choices))
    most = signature.least + 2 if signature.most is None else signature.most
    count = draw(st.integers(signature.least, most))
    args = [draw(trees(signature.arg_type(i), depth)) for i in range(count)]
    if signature.name == "label_replace":
        args[-1] = StringLiteral(value=draw(st.sampled_from(["", "(.*)", "a|b"])))
    return Call(func=signature.name, args=tuple(args), returns=returns)


@st.composite
def _aggregates(draw: st.DrawFn, depth: int) -> Aggregate:
    signature = draw(st.sampled_from([a for a in AGGREGATES.values() if not a.gate]))
    return Aggregate(
        op=signature.name,
        expr=draw(trees(ValueType.VECTOR, depth)),
        param=None if signature.param is None else draw(trees(signature.param, depth)),
        grouping=tuple(draw(st.lists(_label_names, max_size=2))),
        without=draw(st.booleans()),
    )


def _ranges(depth: int) -> st.SearchStrategy[Expr]:
    direct = st.builds(MatrixSelector, selector=_selectors(), range=_spans)
    if depth == 0:
        return direct
    return direct | st.builds(
        Subquery,
        expr=trees(ValueType.VECTOR, depth - 1),
        range=_spans,
        step=st.none() | _spans,
        offset=_offsets,
        at=_times,
    )


@cache
def trees(kind: ValueType, depth: int = 3) -> st.SearchStrategy[Expr]:
    """Well-typed trees without parentheses, of the given type."""
    if kind is ValueType.STRING:
        return _strings
    if kind is ValueType.MATRIX:
        return _ranges(depth)
    leaf = _literals if kind is ValueType.SCALAR else _selectors()
    if depth == 0:
        return leaf
    below = depth - 1
    scalar, vector = ValueType.SCALAR, ValueType.VECTOR
    deeper: list[st.SearchStrategy[Expr]] = [
        st.builds(Unary, op=st.sampled_from("+-"), expr=trees(kind, below)),
        _calls(kind, below),
        _binaries(kind, kind, below),
    ]
    if kind is vector:
        deeper += [
            _binaries(scalar, vector, below),
            _binaries(vector, scalar, below),
            _aggregates(below),
        ]
    return st.one_of(leaf, *deeper)


any_tree = st.sampled_from(ValueType).flatmap(trees)
