"""Prometheus' own PromQL test scripts, every case accounted for.

They are read from `shared/promqltest` beside the checkout and are not part of
this project. As upstream runs them, names are dropped late; a second run drops
them at once, which is the default here as in a server.

A case that passes counts as passed, and one that expects or selects native
histograms and does not pass is set aside. Every other failure is listed below
with its reason, and the counts are exact: whatever changes for better or worse
shows. All expectations are checked, annotations too.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.promql.script import Outcome, Result, run_script

SCRIPTS = Path(__file__).parents[3] / "shared" / "promqltest"

EXPERIMENTAL = {"duration_expression.test", "fill-modifier.test"}
"""Scripts of syntax that the parser refuses: arithmetic in durations, fill modifiers."""

NATIVE_ONLY = "computes on native histograms, the function is refused when a rule file loads"
LATE = "the name is expected to be there still, and is dropped at once"

KNOWN = {
    ("aggregators.test", 481): "fails as expected, but in the parser and in its words",
    ("histograms.test", 72): NATIVE_ONLY,
    ("histograms.test", 84): NATIVE_ONLY,
    ("histograms.test", 96): NATIVE_ONLY,
    ("histograms.test", 102): NATIVE_ONLY,
    ("histograms.test", 108): NATIVE_ONLY,
    ("histograms.test", 1140): NATIVE_ONLY,
    ("histograms.test", 1143): NATIVE_ONLY,
    ("limit.test", 162): "limit_ratio divides the series by another hash than Prometheus'",
}

KNOWN_WHEN_DROPPED_AT_ONCE = KNOWN | {
    ("name_label_dropping.test", line): LATE for line in (59, 64, 69, 74, 89, 115, 119, 123)
}

COUNTS = {
    # instant queries passed and set aside, range queries passed and set aside
    "aggregators.test": (122, 30, 3, 4),
    "at_modifier.test": (63, 0, 15, 0),
    "collision.test": (2, 0, 0, 0),
    "functions.test": (347, 47, 33, 4),
    "histograms.test": (93, 85, 0, 0),
    "limit.test": (6, 7, 8, 15),
    "literals.test": (25, 0, 0, 0),
    "name_label_dropping.test": (29, 0, 1, 0),
    "operators.test": (105, 8, 40, 61),
    "range_queries.test": (4, 1, 13, 0),
    "selectors.test": (31, 0, 0, 0),
    "staleness.test": (17, 0, 0, 0),
    "subquery.test": (32, 2, 0, 0),
    "trig_functions.test": (19, 0, 0, 0),
}
"""895 of 903 instant and 113 of 114 range queries."""

pytestmark = pytest.mark.skipif(
    not SCRIPTS.is_dir(), reason=f"Prometheus' test scripts are not at {SCRIPTS}"
)


def failures(results: list[Result]) -> dict[int, str]:
    return {
        result.case.line: f"{result.case.expr}: {result.why}"
        for result in results
        if result.outcome is Outcome.FAILED
    }


@pytest.mark.parametrize("script", COUNTS)
def test_script(script: str) -> None:
    results = list(run_script(SCRIPTS / script, delayed_name_removal=True))
    failed = failures(results)
    known = {line: reason for (name, line), reason in KNOWN.items() if name == script}
    assert {line: why for line, why in failed.items() if line not in known} == {}
    assert known.keys() - failed.keys() == set(), "listed as failing, and passes"
    count = Counter((result.case.is_range, result.outcome) for result in results)
    assert COUNTS[script] == tuple(
        count[kind, outcome]
        for kind in (False, True)
        for outcome in (Outcome.PASSED, Outcome.NATIVE)
    )


@pytest.mark.parametrize("script", COUNTS)
def test_script_with_names_dropped_at_once(script: str) -> None:
    failed = failures(list(run_script(SCRIPTS / script)))
    expected = {line for name, line in KNOWN_WHEN_DROPPED_AT_ONCE if name == script}
    assert failed.keys() == expected, failed


def test_no_script_is_forgotten() -> None:
    assert {path.name for path in SCRIPTS.glob("*.test")} == COUNTS.keys() | EXPERIMENTAL
