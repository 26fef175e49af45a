"""Rule files: what is read, and that every fault is told with its place."""

from __future__ import annotations

import contextlib
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.alerting.errors import RuleFileError
from enginewatch.alerting.rules import (
    AlertingRule,
    RecordingRule,
    load_rule_file,
    load_rule_files,
    parse_rule_file,
)
from enginewatch.promql.parser import parse_expr

GOOD = """\
groups:
  - name: vllm
    interval: 15s
    query_offset: 1s
    limit: 100
    labels: {runtime: vllm, team: infra}
    rules:
      - record: engine:requests_running
        expr: sum by (instance) (vllm:num_requests_running)
        labels: {team: serving, instance: ""}
      - alert: StuckEngine
        expr: |
          engine:requests_running > 0
          unless rate(vllm:generation_tokens_total[1m]) > 0
        for: 1m30s
        keep_firing_for: 2m
        labels: {severity: page, verdict: stuck_engine}
        annotations:
          summary: "{{ $labels.instance }} makes no progress"
  - name: second
"""


def problems(text: str) -> list[str]:
    with pytest.raises(RuleFileError) as caught:
        parse_rule_file(dedent(text), "r.yml")
    return [str(problem) for problem in caught.value.problems]


def test_a_file_is_read_whole() -> None:
    first, second = parse_rule_file(GOOD, "r.yml").groups
    assert (first.name, first.interval, first.query_offset, first.limit) == (
        "vllm",
        15000,
        1000,
        100,
    )
    assert (second.name, second.interval, second.rules) == ("second", None, ())
    record, alert = first.rules
    assert isinstance(record, RecordingRule)
    assert isinstance(alert, AlertingRule)
    assert record.labels == {"runtime": "vllm", "team": "serving", "instance": ""}
    assert (record.file, record.line) == ("r.yml", 8)
    assert alert.expr == parse_expr(alert.text)
    assert (alert.for_, alert.keep_firing_for, alert.line) == (90_000, 120_000, 11)
    assert (alert.label("verdict"), alert.label("runtime"), alert.label("no")) == (
        "stuck_engine",
        "vllm",
        "",
    )
    assert alert.annotations["summary"].expand({"instance": "a:1"}, 1.0) == "a:1 makes no progress"


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "groups:\n", "groups: []\n", "\ufeffgroups: []"]
)
def test_a_file_without_rules_is_legal(text: str) -> None:
    assert parse_rule_file(text, "r.yml").groups == ()


def test_scalars_of_any_kind_are_texts_and_merge_keys_work() -> None:
    text = """\
    groups:
      - name: 1
        rules:
          - &base
            alert: A
            expr: 1
            labels: {port: 8000, on: yes, none: }
          - <<: *base
            alert: B
    """
    (group,) = parse_rule_file(dedent(text), "r.yml").groups
    assert group.name == "1"
    a, b = group.rules
    assert isinstance(a, AlertingRule)
    assert isinstance(b, AlertingRule)
    assert {name: t.text for name, t in a.labels.items()} == {
        "port": "8000",
        "on": "yes",
        "none": "",
    }
    assert (b.name, b.text) == ("B", "1")


def marked(text: str) -> tuple[str, str]:
    """The text without its § and the `line:column` where that stood."""
    before, after = text.split("§")
    line = before.count("\n") + 1
    return before + after, f"{line}:{len(before) - (before.rfind(chr(10)) + 1) + 1}"


def rule(body: str) -> str:
    return "groups:\n- name: g\n  rules:\n" + "".join(
        f"  {line}\n" for line in dedent(body).strip().splitlines()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("groups: [\n§", "not YAML: "),
        ("groups: []\n§---\ngroups: []\n", "not YAML: expected a single document"),
        ("groups: []§\x01", "not YAML: "),
        ("§- a", "a rule file must be a mapping of keys to values, not a list"),
        ("§group: []", "a rule file: unknown key 'group' (did you mean 'groups'?)"),
        ("groups: §{}", "groups must be a list, not a mapping"),
        ("groups: [§x]", "a group must be a mapping of keys to values, not 'x'"),
        ("groups: [§{rules: []}]", "a group must have a name"),
        ("groups: [{name: §[]}]", "a group: name must be a text, not a list"),
        (
            "groups:\n- name: g\n- name: h\n- name: §g\n",
            "group 'g': the name is already taken in line 2",
        ),
        (
            "groups:\n- name: g\n  §intervall: 1m\n",
            "a group: unknown key 'intervall' (did you mean 'interval'?)",
        ),
        (
            "groups:\n- name: g\n  interval: §60\n",
            "group 'g': interval: '60' is not a duration: write it like 30s, 5m or 1h30m",
        ),
        (
            "groups:\n- name: g\n  limit: §-1\n",
            "group 'g': limit must be a whole number, 0 or more, not '-1'",
        ),
        (
            "groups:\n- name: g\n  §name: h\n",
            "a group: key 'name' is already given in line 2",
        ),
        (rule("- §expr: up"), "group 'g': rule 1 has neither `record` nor `alert` ("),
        (rule("- §up"), "group 'g': rule 1 must be a mapping of keys to values, not 'up'"),
        (
            rule("- §{record: a, alert: b, expr: up}"),
            "group 'g': rule 1 has both `record` and `alert` (keep one of them)",
        ),
        (rule("- §alert: A"), "alert A: `expr` is missing or empty"),
        (rule("- alert: A\n  expr: §' '"), "alert A: `expr` is missing or empty"),
        (rule("- alert: A\n  expr: §[up]"), "alert A: expr must be a text, not a list"),
        (rule("- {record: §a-b, expr: up}"), "record a-b: not a metric name ("),
        (rule("- {alert: §'', expr: up}"), "an alert must have a name"),
        (
            rule("- {record: a, expr: up, §for: 5m}"),
            "record a: a recording rule can't have 'for'",
        ),
        (
            rule("- {alert: A, expr: up, §fro: 5m}"),
            "group 'g': rule 1: unknown key 'fro' (did you mean 'for'?)",
        ),
        (
            rule("- {alert: A, expr: up, for: §5 min}"),
            "alert A: for: '5 min' is not a duration: write it like 30s, 5m or 1h30m",
        ),
        (
            rule("- {alert: A, expr: §'up[5m]'}"),
            "alert A: the expression is a range vector (a rule needs an instant vector",
        ),
        (
            rule("- {record: a, expr: up, labels: {§__name__: b}}"),
            "record a: labels: '__name__' can't be set by a rule",
        ),
        (
            rule("- {alert: A, expr: up, labels: {§a-b: c}}"),
            "alert A: labels: 'a-b' is not a label name",
        ),
        (
            rule("- {alert: A, expr: up, annotations: {§a b: c}}"),
            "alert A: annotations: 'a b' is not a name",
        ),
        (
            rule("- {alert: A, expr: up, labels: {a: §[1]}}"),
            "alert A: labels: a must be a text, not a list",
        ),
        (
            rule("- {alert: A, expr: up}\n- {alert: §A, expr: up == 0}"),
            "alert A: the same name and labels as in line 4 of this group (",
        ),
        (
            rule(
                "- alert: A\n  expr: up\n  annotations:\n    summary: |\n      1\n      {{ §nope }}"
            ),
            "alert A: annotation 'summary': ",
        ),
    ],
)
def test_a_fault_is_told_with_its_place(text: str, expected: str) -> None:
    """The § stands where the fault is to be found, and is taken out before."""
    text, where = marked(text)
    (problem,) = problems(text)
    assert problem.startswith(f"r.yml:{where}: {expected}")


def test_all_faults_are_told_at_once() -> None:
    text = """\
    groups:
      - name: g
        intervl: 1m
        rules:
          - alert: A
            expr: sum(
            for: soon
          - record: B
            expr: up
            annotations: {}
          - alert: C
            expr: up
            annotations:
              summary: "{{ $lables.instance }}"
    """
    places = [problem.split(": ")[0] for problem in problems(text)]
    assert places == ["r.yml:3:5", "r.yml:7:14", "r.yml:6:19", "r.yml:10:9", "r.yml:14:24"]


@pytest.mark.parametrize(
    "expr",
    [
        "sum(up) + §@ 1",
        "'sum(up{a=''b''}) + §@ 1'",
        r'"sum(up{a=\"b\", c=\"\x41\u00e9\"}) + §@ 1"',
        '"sum(up)\n + \\\n \\  §@ 1"',
        "|\n sum(up)\n   + on (a)\n\n §@ 1",
        "|2-\n   sum(up)\n + §@ 1",
        ">\n sum(up)\n + up\n\n   + up{a='é'} +\n §@ 1",
        "> # folded\n sum(up) + §@ 1",
        "sum(up)\n + up\n + §@ 1",
        "'sum(up)\n\n + §@ 1'",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_promql_fault_points_into_the_yaml(expr: str, newline: str) -> None:
    text, where = marked(rule("- alert: A\n  expr: " + expr.replace("\n", "\n   ")))
    (problem,) = problems(text.replace("\n", newline))
    assert problem.startswith(f"r.yml:{where}: alert A: ")


@pytest.mark.parametrize(
    ("label", "shows"),
    [
        ("{{ $value }}", True),
        ("{{ printf `%.0f` .Value }}", True),
        ("{{ with $value }}{{ . }}{{ end }}", True),
        ("{{ if true }}{{ $value | humanize }}{{ end }}", True),
        ("{{ if gt $value 90.0 }}page{{ else }}ticket{{ end }}", False),
        ("{{ $labels.Value }}", False),
    ],
)
def test_a_label_may_compare_the_value_and_not_show_it(label: str, shows: bool) -> None:
    text, where = marked(rule(f"- alert: A\n  expr: up\n  labels: {{severity: §'{label}'}}"))
    if not shows:
        assert parse_rule_file(text, "r.yml").groups
        return
    (problem,) = problems(text)
    assert problem.startswith(f"r.yml:{where}: alert A: label 'severity' shows the measured value")
    assert "annotation" in problem


def test_files_are_read_together(tmp_path: Path) -> None:
    good, bad, binary = tmp_path / "good.yml", tmp_path / "bad.yml", tmp_path / "bin.yml"
    good.write_text(GOOD)
    bad.write_text("groups: 1")
    binary.write_bytes(b"groups: \xff")
    assert load_rule_file(good).path == str(good)
    with pytest.raises(RuleFileError) as caught:
        load_rule_files([good, bad, tmp_path / "none.yml", binary])
    assert str(caught.value).splitlines() == [
        f"{bad}:1:9: groups must be a list, not '1'",
        f"{tmp_path / 'none.yml'}: can't be read: No such file or directory",
        f"{binary}: not UTF-8 at byte 8",
    ]


WORDS = ["groups:", "rules:", "alert:", "expr:", "for:", "name:", "up", "-", "?", ":", "|", ">"]
MARKS = ["'", '"', "{", "}", "[", "]", "&a", "*a", "<<:", "\\", "é", "#", "!!x", " ", "\r", "\t"]
PIECES = st.sampled_from([*WORDS, *MARKS, "\n", "\n  ", "\n    "])


@given(st.lists(PIECES, max_size=40).map("".join))
@settings(deadline=None, max_examples=300)
def test_no_text_makes_another_error(text: str) -> None:
    with contextlib.suppress(RuleFileError):
        parse_rule_file(text, "r.yml")
