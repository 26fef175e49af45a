"""Acceptance, beside Prometheus' own scripts and beside another parser of PromQL."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import promql_parser
import pytest
from tests.support.expressions import CORPUS

from enginewatch.promql.errors import PromQLError
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.printer import format_expr

SCRIPTS = Path(__file__).parents[3] / "shared" / "promqltest"


def conformance_queries() -> list[tuple[str, bool]]:
    """Every query of Prometheus' own scripts, and whether its script expects it to fail."""
    head = re.compile(
        r"eval(?P<kind>_\w+)?\s+(?:instant(?:\s+at\s+\S+)?|range\s+from\s+\S+\s+to\s+\S+\s+step\s+\S+)"
        r"\s+(?P<query>.+)"
    )
    queries = []
    for script in sorted(SCRIPTS.glob("*.test")):
        lines = script.read_text(encoding="utf-8").splitlines()
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if found := head.fullmatch(line.strip()):
                fails = found["kind"] == "_fail" or following.strip().startswith("expect fail")
                queries.append((found["query"], fails))
    return queries


REFUSALS = re.compile(
    r"is not supported: it (is experimental|needs native histograms)|arithmetic in a duration"
)


@pytest.mark.skipif(not SCRIPTS.is_dir(), reason="Prometheus' conformance scripts are not here")
def test_conformance_queries_parse_or_are_refused_by_name() -> None:
    queries = conformance_queries()
    assert len(queries) > 1300
    refused = [found for query, fails in queries if (found := refusal(query, fails))]
    assert [reason for reason in refused if not REFUSALS.search(reason)] == []
    assert len(refused) < 0.11 * len(queries)


def refusal(query: str, fails: bool) -> str | None:
    """Why `query` is refused; None when it parses, and also prints, or when it has to fail."""
    try:
        expr = parse_expr(query, experimental=True)
    except PromQLError as failure:
        return None if fails else str(failure)
    assert parse_expr(format_expr(expr), experimental=True) == expr
    return None


INVALID = (
    "",
    "a +",
    "(a",
    "a)",
    "a b",
    "a[5m",
    "a[m]",
    "a[0s]",
    "a[5m:0s]",
    "(a)[5m]",
    "a[5m][5m]",
    "a[5m][5m:1m]",
    "5[5m:1m]",
    "a offset 1m[5m]",
    "a offset",
    "sum(a) offset 5m",
    "1 offset 5m",
    "a @ foo",
    "a @ 1 @ 2",
    "a @ start",
    "{}",
    "{a=''}",
    "{a=~'.*'}",
    "a{b='c'",
    "a{b}",
    "a{b=c}",
    "a{b=='c'}",
    "a{'b'}",
    "a{__name__='b'}",
    "a{b=~'('}",
    "a{b='c' d='e'}",
    "1 < 2",
    "a + bool b",
    "a and 1",
    "1 or a",
    "a and on(x) group_left b",
    "a + on(x) group_left(x) b",
    "a + group_left b",
    "a[5m] + 1",
    "'a' + 1",
    "-a[5m]",
    "-'a'",
    "nosuch(a)",
    "rate(a)",
    "abs(a[5m])",
    "abs()",
    "abs(a, a)",
    "round(a, 1, 1)",
    "time(1)",
    "scalar(1)",
    "vector(a)",
    "label_replace(a, 'b', 'c', 'd')",
    "rate(a[5m],)",
    "sum()",
    "sum(a, b)",
    "sum(1)",
    "topk(a)",
    "topk(a, a)",
    "topk('a', a)",
    "count_values(1, a)",
    "sum by (a:b) (a)",
    "sum by a (a)",
    "sum(a) by (b) by (c)",
    "bool",
    "on + a",
    "a = b",
    "a =~ 'b'",
    "a ! b",
    "a && b",
    "1h30",
    "5x",
    "1..2",
    '"open',
    '"\\q"',
    "a $ b",
    "holt_winters(a[5m], 0.5, 0.5)",
    "mad_over_time(a[5m])",
)

# Where the oracle is known to differ: it takes syntax that Prometheus refuses, or the reverse.
ORACLE_ACCEPTS = {"mad_over_time(a[5m])": "it has no notion of experimental functions"}


@pytest.mark.parametrize("text", CORPUS)
def test_the_oracle_accepts_what_is_accepted(text: str) -> None:
    parse_expr(text)
    promql_parser.parse(text)


@pytest.mark.parametrize("text", INVALID)
def test_the_oracle_rejects_what_is_rejected(text: str) -> None:
    with pytest.raises(PromQLError):
        parse_expr(text)
    if text in ORACLE_ACCEPTS:
        promql_parser.parse(text)
    else:
        with pytest.raises(ValueError):  # noqa: PT011 - the oracle has one error for everything
            promql_parser.parse(text)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        (r'label_replace(a, "b", "$1", "c", `(\d+)`)', True),  # raw strings have no escapes
        ("1_000", True),
        ('a{b="c" or d="e"}', False),  # VictoriaMetrics' own
        ("a offset 0s offset 5m", False),  # Prometheus counts a zero offset as none
        ("a[1m] anchored", False),
        ("start()", False),
    ],
)
def test_where_the_oracle_is_not_asked(text: str, accepted: bool) -> None:
    if accepted:
        parse_expr(text)
    else:
        with pytest.raises(PromQLError):
            parse_expr(text)


# Syntax of Prometheus 3 that a promtool of version 2 refuses, and what only version 2 had.
NEW_IN_3 = {
    "time() - process_start_time_seconds < 5m",
    "x[300]",
    '{"a", __name__=~"a.*"}',
}
GONE_IN_3 = {"holt_winters(a[5m], 0.5, 0.5)"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_agrees(tmp_path: Path) -> None:
    texts = [text for text in (*CORPUS, *INVALID) if text and text not in NEW_IN_3 | GONE_IN_3]
    rules = [{"record": f"r{i}", "expr": text} for i, text in enumerate(texts)]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    found = re.findall(r'"r(\d+)": could not parse', done.stdout + done.stderr)
    assert {texts[int(i)] for i in found} == set(texts) & set(INVALID)
