"""Running rule tests: what is judged when, and how a failure reads.

That they come out as in promtool is in test_ruletest_promtool.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.alerting.dormant import awake, may_give
from enginewatch.alerting.errors import RuleFileError
from enginewatch.alerting.rules import parse_rule_file
from enginewatch.alerting.ruletest import FileResult, run_test_files
from enginewatch.promql.parser import parse_expr

RULES = """
groups:
  - name: g
    interval: 1s
    rules:
      - record: job:up:min
        expr: min by (job) (up)
      - alert: Down
        expr: job:up:min == 0
        for: 2m
        annotations: {summary: '{{ $labels.job }} is {{ $value }}'}
      - alert: Absent
        expr: absent(up)
"""


def run(folder: Path, test: str, rules: str = RULES) -> FileResult:
    (folder / "rules.yml").write_text(rules)
    path = folder / "x.test.yml"
    path.write_text("rule_files: [rules.yml]\n" + test)
    (result,) = run_test_files([path])
    return result


def texts(result: FileResult, folder: Path) -> list[str]:
    return [str(failure).replace(f"{folder}/", "") for failure in result.failures]


STORY = """
tests:
  - name: it goes down
    interval: 1m
    input_series: [{series: 'up{job="a"}', values: '1 0x4 1'}]
    alert_rule_test:
"""


def test_cases_are_judged_at_the_last_evaluation_before_them(tmp_path: Path) -> None:
    down = "exp_alerts: [{exp_labels: {job: a}, exp_annotations: {summary: a is 0}}]"
    result = run(
        tmp_path,
        STORY
        + f"""
      - {{eval_time: 2m59s, alertname: Down}}
      - {{eval_time: 3m, alertname: Down, {down}}}
      - {{eval_time: 5m59s, alertname: Down, {down}}}
      - {{eval_time: 6m, alertname: Down}}
""",
    )
    assert texts(result, tmp_path) == []
    assert result.cases == 4


def test_failures_show_what_differs_and_what_the_alert_is_instead(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        STORY
        + """
      - {eval_time: 2m, alertname: Down, exp_alerts: [{exp_labels: {job: a}}]}
      - eval_time: 4m
        alertname: Down
        exp_alerts:
          - exp_labels: {job: a}
            exp_annotations: {summary: a is 1, runbook: somewhere}
          - exp_labels: {job: b}
      - {eval_time: 4m, alertname: Down}
      - {eval_time: 7m, alertname: Down, exp_alerts: [{exp_labels: {job: a}}]}
""",
    )
    expected = """
x.test.yml:9:9: it goes down: Down at 2m
    - {alertname="Down", job="a"}
      {alertname="Down", job="a"} is pending since 1m
    nothing fires
x.test.yml:10:9: it goes down: Down at 4m
      {alertname="Down", job="a"}
    -     runbook: 'somewhere'
    -     summary: 'a is 1'
    +     summary: 'a is 0'
    - {alertname="Down", job="b"}
x.test.yml:16:9: it goes down: Down at 4m
    + {alertname="Down", job="a"}
    +     summary: 'a is 0'
x.test.yml:17:9: it goes down: Down at 7m
    - {alertname="Down", job="a"}
      {alertname="Down", job="a"} is resolved since 6m
    nothing fires
"""
    assert "\n".join(texts(result, tmp_path)) == expected.strip()


def test_expressions_are_judged_when_the_story_is_over(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
tests:
  - interval: 1m
    input_series: [{series: 'up{job="a"}', values: '1 0 1'}]
    promql_expr_test:
      - expr: job:up:min
        eval_time: 1m
        exp_samples: [{labels: 'job:up:min{job="a"}', value: 0}]
      - {expr: up + 0 * up, eval_time: 2m, exp_samples: [{labels: '{job="a"}', value: 2}]}
      - {expr: up / 0 - up / 0, eval_time: 2m, exp_samples: [{labels: '{job="a"}', value: .nan}]}
      - {expr: 'up + on(x) group_left(job) up', eval_time: 2m}
""",
    )
    assert texts(result, tmp_path)[0] == (
        'x.test.yml:10:9: up + 0 * up at 2m\n    - {job="a"} 2\n    + {job="a"} 1'
    )
    assert len(result.failures) == 2


@pytest.mark.parametrize(("fuzzy", "failures"), [("true", 0), ("false", 1)])
def test_fuzzy_comparison_forgives_the_last_bit(tmp_path: Path, fuzzy: str, failures: int) -> None:
    result = run(
        tmp_path,
        f"""
fuzzy_compare: {fuzzy}
tests:
  - promql_expr_test:
      - {{expr: 0.1 + 0.2, exp_samples: [{{value: 0.3}}]}}
""",
    )
    assert len(result.failures) == failures


def test_a_story_may_start_at_any_time(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
tests:
  - start_timestamp: 2026-01-31T12:00:00Z
    interval: 1m
    input_series: [{series: up, values: '0x9'}]
    alert_rule_test:
      - {eval_time: 1m, alertname: Down, exp_alerts: [{exp_labels: {}}]}
    promql_expr_test:
      - {expr: hour(), eval_time: 1m, exp_samples: [{value: 12}]}
""",
    )
    (text,) = texts(result, tmp_path)
    assert '{alertname="Down"} is pending since 0s' in text


def test_silence_of_an_alert_that_no_rule_has_is_no_success(tmp_path: Path) -> None:
    result = run(tmp_path, STORY + "      - {eval_time: 1m, alertname: Dwon, exp_alerts: []}\n")
    assert texts(result, tmp_path) == [
        "x.test.yml:8:9: it goes down: Dwon at 1m: no rule has this alert (did you mean 'Down'?)"
    ]


def test_a_rule_that_fails_ends_its_story(tmp_path: Path) -> None:
    rules = RULES + "      - alert: Two\n        expr: up\n        labels: {job: ''}\n"
    series = "[{series: 'up{job=\"a\"}', values: '_ 1'}, {series: 'up{job=\"b\"}', values: '1 1'}]"
    story = f"""
tests:
  - name: first
    input_series: {series}
    alert_rule_test: [{{eval_time: 5m, alertname: Absent, exp_alerts: [{{}}]}}]
  - {{name: second, alert_rule_test: [{{alertname: Absent, exp_alerts: [{{}}]}}]}}
"""
    (text,) = texts(run(tmp_path, story, rules), tmp_path)
    assert text == (
        "x.test.yml:4:5: first: rule Two (rules.yml:14) fails at 1m\n"
        '    two series give the same alert: {alertname="Two"}'
    )


def test_broken_rule_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuleFileError, match=r"rules.yml:1:10"):
        run(tmp_path, "", "groups: [}")


def test_patterns_that_find_nothing_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.test.yml"
    path.write_text("rule_files: [nothing*.yml]\ntests: []\n")
    (result,) = run_test_files([path])
    assert result.passed
    assert result.warnings == (f"{path}:1:14: no file is named nothing*.yml",)


def test_groups_are_evaluated_in_the_order_asked_for(tmp_path: Path) -> None:
    rules = """
groups:
  - {name: reader, rules: [{record: b, expr: a}]}
  - {name: writer, rules: [{record: a, expr: x}]}
"""
    test = """
tests:
  - input_series: [{series: x, values: '1 2'}]
    interval: 1m
    promql_expr_test: [{expr: b, eval_time: 1m, exp_samples: [{labels: b, value: %d}]}]
"""
    assert run(tmp_path, test % 1, rules).passed
    assert run(tmp_path, "group_eval_order: [writer, reader]" + test % 2, rules).passed


@pytest.mark.parametrize(
    ("expr", "possible"),
    [
        ("a", True),
        ("b", False),
        ('{__name__=~"a|b"}', True),
        ('{__name__=~"b|c"}', False),
        ('{job="x"}', True),
        ("rate(b[1m])", False),
        ("max_over_time(rate(b[1m])[5m:1m])", False),
        ("sum by (job) (b)", False),
        ("topk(2, a)", True),
        ("quantile(0.9, b)", False),
        ("b or a", True),
        ("b or b", False),
        ("a unless b", True),
        ("b unless a", False),
        ("a and b", False),
        ("a / on(x) group_left b", False),
        ("b > 1", False),
        ("1 - b", False),
        ("-b", False),
        ("(a)", True),
        ("absent(b)", True),
        ("absent_over_time(b[1m])", True),
        ("scalar(b)", True),
        ("a * scalar(b)", True),
        ("b * scalar(a)", False),
        ("vector(1)", True),
        ("time()", True),
        ("hour()", True),
        ("hour(b)", False),
        ("label_replace(b, 'x', '$1', 'y', '(.*)')", False),
        ("histogram_quantile(0.9, b)", False),
        ("1", True),
    ],
)
def test_expressions_that_can_give_nothing(expr: str, possible: bool) -> None:
    assert may_give(parse_expr(expr), {"a"}.__contains__) is possible


def test_rules_wake_each_other_up() -> None:
    text = """
groups:
  - name: g
    rules:
      - {record: c, expr: b + 1}
      - {record: b, expr: a}
      - {record: itself, expr: itself + 1}
      - {alert: OnAlerts, expr: ALERTS}
      - {alert: OnNothing, expr: 'rate(nothing[1m]) > 0'}
      - {alert: OnC, expr: c > 0}
"""
    (file,) = awake([parse_rule_file(text, "x.yml")], ["a"])
    assert [rule.name for rule in file.groups[0].rules] == ["c", "b", "OnAlerts", "OnC"]
