"""Rule tests come out as promtool's: on written cases, right and wrong, and on random stories."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from enginewatch.alerting.ruletest import FileResult, run_test_files
from enginewatch.promql.seriesdesc import parse_metric
from enginewatch.units import format_duration, parse_duration

PROMTOOL = shutil.which("promtool")
DATA = Path(__file__).parent.parent / "data/alerting/ruletests"

pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus"
)


def promtool(path: Path) -> str:
    command = [str(PROMTOOL), "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


def ours(path: Path) -> FileResult:
    """Our result, with the windows of the promtool that Debian has."""
    (result,) = run_test_files([path], left_closed=True)
    return result


def failed_in(output: str) -> list[str]:
    """The cases that failed in promtool, titled as ours are but for the story's name."""
    pattern = r'(?:alertname: (\S+)|expr: ("(?:[^"\\]|\\.)*")), time: (\w+)'
    return [
        f"{alert or ast.literal_eval(expr)} at {at}"
        for alert, expr, at in re.findall(pattern, output)
    ]


def test_the_same_cases_fail() -> None:
    path = DATA / "mixed.test.yml"
    titles = [failure.title.partition(": ")[2] for failure in ours(path).failures]
    broken = [title for title in titles if " fails at " in title]
    output = promtool(path)
    theirs = failed_in(output)
    assert len(theirs) > 5, output
    assert sorted(title for title in titles if title not in broken) == sorted(theirs)
    assert re.findall(r"rule: (\w+), time: (\w+), err", output) == [("Twice", "2m0s")]
    assert len(broken) == 1
    assert re.fullmatch(r"rule Twice \(.*/rules.yml:\d+\) fails at 2m", broken[0])


def story(rng: Random, number: int) -> dict[str, Any]:
    """Random series, asked at random times about all that the rules can do."""

    def values() -> str:
        one = ["_", "stale", "_x2", "6", "7x2", "0", "3x3", "4+1x4", "9-2x3", "-1"]
        return " ".join(rng.choice(one) for _ in range(rng.randint(5, 12)))

    series = [f'v{{job="{job}", i="{i}"}}' for job in "ab" for i in (1, 2)]
    times = [f"{rng.randint(0, 12)}m", f"{rng.randint(0, 700)}s", f"{rng.randint(0, 12)}m30s"]
    alerts = ["Now", "Held", "Kept", "HeldAndKept", "ByValue", "Gone", "Queries", "OnAlerts"]
    exprs = [
        "job:v:sum",
        "v:rate2m",
        "v:change",
        "ALERTS",
        "ALERTS_FOR_STATE",
        "count_over_time(v[3m])",
    ]
    return {
        "name": f"story {number}",
        "interval": rng.choice(["15s", "30s", "1m", "80s"]),
        "external_labels": {"cluster": "eu"},
        "external_url": "https://w.example/",
        "input_series": [{"series": each, "values": values()} for each in series],
        "alert_rule_test": [
            {"eval_time": at, "alertname": name, "exp_alerts": []}
            for name in [*alerts, "Pending"]
            for at in times
        ],
        "promql_expr_test": [
            {"expr": expr, "eval_time": at, "exp_samples": []} for expr in exprs for at in times
        ],
    }


def expect(test: dict[str, Any], result: FileResult) -> None:
    """Write into the test what was found, so that it should pass."""
    found = {failure.title: failure.difference for failure in result.failures}
    for case in test["alert_rule_test"]:
        difference = found.get(
            f"{test['name']}: {case['alertname']} at {_tidy(case['eval_time'])}", ""
        )
        for line in difference.splitlines():
            if line.startswith("+ {"):
                labels = dict(parse_metric(line[2:]))
                case["exp_alerts"].append({"exp_labels": labels, "exp_annotations": {}})
            elif line.startswith("+     "):
                name, _, text = line[6:].partition(": ")
                case["exp_alerts"][-1]["exp_annotations"][name] = ast.literal_eval(text)
    for case in test["promql_expr_test"]:
        difference = found.get(f"{test['name']}: {case['expr']} at {_tidy(case['eval_time'])}", "")
        for line in difference.splitlines():
            labels, _, value = line[2:].rpartition(" ")
            case["exp_samples"].append({"labels": labels, "value": float(value)})


def _tidy(duration: str) -> str:
    return format_duration(parse_duration(duration))


def test_random_stories_come_out_alike(tmp_path: Path) -> None:
    shutil.copy(DATA / "rules.yml", tmp_path)
    rng = Random(7)
    path = tmp_path / "random.test.yml"
    file = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "group_eval_order": ["recorded", "alerts", "chained"],
        "tests": [story(rng, number) for number in range(12)],
    }
    path.write_text(yaml.safe_dump(file))
    first = ours(path)
    assert len(first.failures) > 150
    for test in file["tests"]:
        expect(test, first)
    path.write_text(yaml.safe_dump(file))
    assert ours(path).failures == ()
    output = promtool(path)
    assert output.rstrip().endswith("SUCCESS"), output[:6000]
