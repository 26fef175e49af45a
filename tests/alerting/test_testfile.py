"""Reading rule test files: what is in them, and every fault at its place."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from enginewatch.alerting.errors import RuleFileError
from enginewatch.alerting.testfile import TestFile, load_test_file
from enginewatch.model import Labels, is_stale
from enginewatch.promql.printer import format_expr


def load(folder: Path, text: str) -> TestFile:
    path = folder / "x.test.yml"
    path.write_text(text)
    return load_test_file(path)


def test_a_whole_file(tmp_path: Path) -> None:
    for name in ("a.yml", "b.yml", "c.txt"):
        (tmp_path / name).write_text("groups: []\n")
    file = load(
        tmp_path,
        """
rule_files: [b.yml, '*.yml', none-*.yml]
evaluation_interval: 15s
group_eval_order: [second, first]
fuzzy_compare: true
tests:
  - name: a story
    interval: 5s
    start_timestamp: 2026-01-31T12:00:00Z
    external_labels: {cluster: eu}
    external_url: https://w.example
    input_series:
      - {series: 'up{job="a"}', values: '1x2 _ stale'}
    alert_rule_test:
      - eval_time: 1m30s
        alertname: Down
        exp_alerts:
          - exp_labels: {job: a, number: 1}
            exp_annotations: {summary: 'a: down'}
          - {}
      - {eval_time: 5m, alertname: Down}
    promql_expr_test:
      - expr: sum by (job) (up)
        eval_time: 1m
        exp_samples:
          - {labels: '{job="a"}', value: 1.5e3}
          - {value: .nan}
          - {labels: 'up', value: -.inf}
  - {}
""",
    )
    assert [Path(path).name for path in file.rule_files] == ["b.yml", "a.yml", "x.test.yml"]
    assert file.warnings == (f"{tmp_path}/x.test.yml:2:30: no file is named none-*.yml",)
    assert (file.evaluation_interval, file.fuzzy) == (15_000, True)
    assert file.group_order == ("second", "first")
    story, empty = file.groups
    assert (story.name, story.interval, story.start) == ("a story", 5_000, 1_769_860_800_000)
    assert story.external_labels == Labels(cluster="eu")
    assert story.external_url == "https://w.example"
    (series,) = story.series
    assert series.labels == Labels(__name__="up", job="a")
    assert series.values[:4] == (1, 1, 1, None)
    assert is_stale(series.values[4] or 0.0)
    down, later = story.alerts
    assert (down.at, down.alertname) == (90_000, "Down")
    assert down.place == f"{tmp_path}/x.test.yml:15:9"
    assert down.expected[0].labels == Labels(alertname="Down", job="a", number="1")
    assert down.expected[0].annotations == {"summary": "a: down"}
    assert down.expected[1].labels == Labels(alertname="Down")
    assert later.expected == ()
    (expr,) = story.exprs
    assert format_expr(expr.expr) == "sum by (job) (up)"
    assert expr.expected[0] == (Labels(job="a"), 1500.0)
    assert expr.expected[1][0] == Labels()
    assert math.isnan(expr.expected[1][1])
    assert expr.expected[2] == (Labels(__name__="up"), -math.inf)
    assert (empty.interval, empty.start, empty.series) == (15_000, 0, ())


def test_defaults(tmp_path: Path) -> None:
    file = load(tmp_path, "tests:\n- input_series: []\n")
    assert file.evaluation_interval == 60_000
    assert file.groups[0].interval == 60_000
    assert not file.fuzzy
    assert load(tmp_path, "").groups == ()


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("tests: {}", "1:8", "tests must be a list, not a mapping"),
        ("test: []", "1:1", "unknown key 'test'"),
        ("tests:\n- nmae: x", "2:3", "test 1: unknown key 'nmae'"),
        ("evaluation_interval: 5", "1:22", "evaluation_interval: '5' is not a duration"),
        ("group_eval_order: [a, a]", "1:23", "group_eval_order: 'a' is given twice"),
        ("fuzzy_compare: maybe", "1:16", "fuzzy_compare must be true or false"),
        ("tests:\n- start_timestamp: soon", "2:20", "start_timestamp: 'soon' is not a time"),
        (
            "tests:\n- name: x\n  input_series: [{series: up}]",
            "3:18",
            "test 1 (x): input_series 1: `values` is missing",
        ),
        (
            "tests:\n- input_series:\n  - {series: 'up{', values: '1'}",
            "3:18",
            "input_series 1: series: unexpected end",
        ),
        (
            "tests:\n- input_series:\n  - series: up\n    values: >-\n      1 2\n      3 x",
            "6:9",
            "input_series 1: values: x is no value of a series",
        ),
        (
            "tests:\n- alert_rule_test: [{eval_time: 1m}]",
            "2:21",
            "alert_rule_test 1: `alertname` is missing",
        ),
        (
            "tests:\n- promql_expr_test: [{expr: 'sum(', eval_time: 1m}]",
            "2:34",
            "promql_expr_test 1: expr: ",
        ),
        ("tests:\n- promql_expr_test: [{eval_time: 1m}]", "2:22", "`expr` is missing"),
        ("tests:\n- promql_expr_test: [{expr: 'up[1m]'}]", "2:29", "is a range vector"),
        (
            "tests:\n- promql_expr_test: [{expr: up, exp_samples: [{value: 1_0}]}]",
            "2:55",
            "'1_0' is not a number",
        ),
        (
            "tests:\n- promql_expr_test: [{expr: up, exp_samples: [{value: .}]}]",
            "2:55",
            "'.' is not a number",
        ),
        (
            "tests:\n- promql_expr_test: [{expr: up, exp_samples: [{histogram: '{{}}'}]}]",
            "2:48",
            "native histograms are not supported",
        ),
        (
            "tests:\n- alert_rule_test: [{alertname: A, exp_alerts: [{exp_labels: {a: [1]}}]}]",
            "2:66",
            "exp_labels: a must be a text, not a list",
        ),
        ("tests: [", "2:1", "not YAML"),
    ],
)
def test_faults_are_told_with_their_place(tmp_path: Path, text: str, place: str, what: str) -> None:
    with pytest.raises(RuleFileError) as caught:
        load(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.where == f"{tmp_path}/x.test.yml:{place}"
    assert what in problem.what


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RuleFileError) as caught:
        load(tmp_path, "evaluation_interval: x\ntests:\n- alert_rule_test: [{}]\n  intervall: 5s\n")
    assert len(caught.value.problems) == 3


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuleFileError, match=r"nowhere.yml: can't be read: No such file"):
        load_test_file(tmp_path / "nowhere.yml")
