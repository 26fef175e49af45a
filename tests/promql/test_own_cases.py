"""The project's own cases in the script language, so that it can be tested by itself.

Each file of `cases/` is one topic. Every expectation counts, annotations too;
files whose name starts with `delayed_` run with delayed name removal.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.promql.script import Case, Outcome, read_script, run_script

from enginewatch.promql.ast import Aggregate, Binary, Call
from enginewatch.promql.grammar import PRECEDENCE
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.signatures import AGGREGATES, FUNCTIONS

CASES = sorted((Path(__file__).parent / "cases").glob("*.test"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases(path: Path) -> None:
    delayed = path.name.startswith("delayed_")
    results = list(run_script(path, delayed_name_removal=delayed))
    wrong = [
        f"{path.name}:{result.case.line}: {result.case.expr}\n    {result.why}"
        for result in results
        if result.outcome is not Outcome.PASSED
    ]
    assert not wrong, "\n".join(wrong)
    assert results


def test_every_function_aggregation_and_operator_has_a_case() -> None:
    used: set[str] = set()
    for path in CASES:
        for step in read_script(path.read_text()):
            if isinstance(step, Case) and "expect fail" not in step.lines:
                for node in parse_expr(step.expr, experimental=True).walk():
                    if isinstance(node, Call):
                        used.add(node.func)
                    elif isinstance(node, Aggregate | Binary):
                        used.add(node.op)
    assert {*FUNCTIONS, *AGGREGATES, *PRECEDENCE} - used == set()
