"""What alerts need, what targets lack, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from enginewatch.alerting.coverage import Coverage, CoverageState
from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.explain import describe, explain
from enginewatch.alerting.exports import Exports, Roll
from enginewatch.alerting.needs import All, Either, Missing, Need, Series, Where, missing
from enginewatch.alerting.rules import AlertingRule, RuleFile, parse_rule_file
from enginewatch.alerting.trace import Tracer, kept_series
from enginewatch.model import Labels, Target
from enginewatch.store.head import Head

ENGINES = """\
groups:
- name: vllm
  labels: {runtime: vllm}
  rules:
  - {record: engine:running:sum, expr: sum by (instance) (vllm:num_requests_running)}
  - {record: engine:kv:ratio, expr: vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc}
  - {record: engine:tokens:rate1m, expr: 'rate(vllm:tokens_total[1m])'}
  - {record: engine:uptime:now, expr: time() - process_start_time_seconds}
- name: sglang
  labels: {runtime: sglang}
  rules:
  - {record: engine:running:sum, expr: sglang:num_running_reqs}
  - {record: engine:tokens:rate1m, expr: 'rate(sglang:tokens_total[1m])'}
- name: any
  rules:
  - {record: engine:load:ratio, expr: engine:running:sum / scalar(vector(100))}
  - {record: engine:latch, expr: engine:running:sum > 5 or engine:latch}
"""


def alerts(*rules: str) -> tuple[RuleFile, RuleFile]:
    """The engines' file, and one of alerts given as `expr` or `verdict: expr`."""
    body = "groups:\n- name: hazards\n  rules:\n"
    for i, text in enumerate(rules):
        verdict, _, expr = text.rpartition("| ")
        body += f"  - alert: A{i}\n    expr: >-\n      {expr}\n"
        body += f"    labels: {{verdict: {verdict or 'v'}}}\n"
    return parse_rule_file(ENGINES, "engines.yml"), parse_rule_file(body, "hazards.yml")


def shown(need: Need) -> str:
    match need:
        case Series(name=name, offered=offered):
            return name if offered else f"{name}!"
        case All(parts=parts):
            return f"({' & '.join(map(shown, parts))})" if parts else "nothing"
        case Either(parts=parts):
            return f"({' | '.join(map(shown, parts))})" if parts else "not asked"
        case Where(matchers=matchers, need=inner):
            return f"{shown(inner)}{{{', '.join(map(str, matchers))}}}"
    raise AssertionError(need)


@pytest.mark.parametrize(
    ("expr", "runtime", "need"),
    [
        ("vllm:x > 5", "vllm", "vllm:x"),
        ("a + b * 2 > bool 1", "", "(a & b)"),
        ("a and on (instance) b", "", "(a & b)"),
        ("a or b", "", "(a | b)"),
        ("a unless b", "", "a"),
        ("a or vector(0)", "", "nothing"),
        ("rate(a[1m]) or 0 * up", "", "(a | up)"),
        ("absent(a) or absent_over_time(b[5m])", "", "nothing"),
        ("absent(a) and b", "", "b"),
        ("vector(1) > time()", "", "nothing"),
        ("-(sum by (x) (max_over_time(a[5m:15s])))", "", "a"),
        ("topk(scalar(k), a)", "", "(k & a)"),
        ("histogram_quantile(0.9, sum by (le) (rate(a_bucket[1m])))", "", "a_bucket"),
        ('{__name__=~"a|b"}', "", "(a | b)"),
        ('{__name__=~"a.*"}', "", "nothing"),
        ('{job="x"}', "", "nothing"),
        ("a and a > 5 and a", "", "a"),
        ("ALERTS > 0 or enginewatch_hazard_blind", "", "nothing"),
        ('a{reason="x"}', "", 'a{reason="x"}'),
        # Through recording rules, those of the target's runtime only.
        ("engine:running:sum", "vllm", "vllm:num_requests_running"),
        ("engine:running:sum", "sglang", "sglang:num_running_reqs"),
        ("engine:running:sum", "triton", "engine:running:sum!"),
        ("engine:load:ratio", "sglang", "sglang:num_running_reqs"),
        ("engine:kv:ratio", "vllm", "(vllm:kv_cache_usage_perc | vllm:gpu_cache_usage_perc)"),
        ("engine:kv:ratio", "sglang", "engine:kv:ratio!"),
        ('engine:kv:ratio{runtime="vllm"}', "sglang", "not asked"),
        (
            'engine:kv:ratio{runtime="vllm"} or engine:running:sum',
            "sglang",
            "sglang:num_running_reqs",
        ),
        ('engine:kv:ratio{runtime="vllm"} and engine:running:sum', "sglang", "not asked"),
        ("engine:latch", "vllm", "nothing"),
        ("engine:running:sum unless engine:latch", "vllm", "vllm:num_requests_running"),
    ],
)
def test_what_an_expression_needs(expr: str, runtime: str, need: str) -> None:
    tracer = Tracer(alerts(expr))
    assert shown(tracer.need(tracer.alerts[0], runtime)) == need


A, B, C, D = (Series(name) for name in "abcd")
NO = Series("no", offered=False)


@pytest.mark.parametrize(
    ("need", "has", "items", "offered"),
    [
        (A, "a", (), True),
        (A, "", ("a",), True),
        (All((A, B, C)), "b", ("a", "c"), True),
        (Either((A, B)), "b", (), True),
        (Either((A, B)), "", ("a or b",), True),
        (Either((A, All((B, C)))), "", ("a or (b, c)",), True),
        # An alternative that lacks more than another is not worth telling.
        (Either((A, All((A, C)))), "", ("a",), True),
        (Either((All((A, B)), All((A, C)))), "b", ("a",), True),
        (Either((All((A, B)), All((A, C)))), "a", ("b or c",), True),
        (All((D, Either((A, Either((B, C)))))), "", ("d", "a or (b or c)"), True),
        # What can't be had is told only where nothing else can.
        (NO, "", ("no",), False),
        (Either((NO, A)), "", ("a",), True),
        (Either((NO, A)), "a", (), True),
        (All((NO, A)), "", ("no",), False),
        (Either(tuple(Series(n) for n in "pqrstu")), "", ("p or q or r or s or …",), True),
    ],
)
def test_what_is_missing(need: Need, has: str, items: tuple[str, ...], offered: bool) -> None:
    assert missing(need, lambda name: name in has, lambda _: True) == Missing(items, offered)


class Fleet:
    """Targets and their pages, in a store."""

    def __init__(self, *files: RuleFile):
        self.head = Head()
        self.coverage = Coverage(Tracer(files))
        self.state = CoverageState()
        self.now = 1_000_000

    def look(self, pages: dict[str, str], **labels: str) -> list[str]:
        """The hazards that targets are blind to, when each has a page of these names.

        A page is `name name`, or `down`; a target is `instance` or `instance/runtime`.
        """
        self.now += 15_000
        targets = []
        for which, page in pages.items():
            instance, _, runtime = which.partition("/")
            own = Labels(
                {"job": "j", "instance": instance, "deployment": "d", "runtime": runtime, **labels}
            )
            targets.append(Target(f"http://{instance}", own))
            source = self.head.source(instance)
            found = [] if page == "down" else page.split()
            series = [own.with_(__name__=name) for name in ["up", *found]]
            refs = [source.resolve(each) for each in series]
            values = [0.0 if page == "down" else 1.0] + [5.0] * len(found)
            source.append(self.now, np.array(refs, dtype=np.int64), np.array(values))
        exports = Exports(self.head, Roll(targets), self.now)
        self.state = self.coverage.look(self.state, exports)
        return [
            f"{blind.target.instance} {blind.verdict} {blind.cause}: {blind.missing}"
            for blind in self.state.all_blind()
        ]


VLLM = "vllm:num_requests_running vllm:gpu_cache_usage_perc vllm:tokens_total"
STUCK = "stuck| engine:running:sum > 0 and engine:tokens:rate1m == 0"
KV = "vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc"
FULL = "full| engine:kv:ratio > 0.9"


@pytest.mark.parametrize(
    ("rules", "pages", "blind"),
    [
        ([STUCK, FULL], {"a": VLLM}, []),
        # Old and new names are both good; a rename that no rule knows is told with both.
        ([FULL], {"a": VLLM.replace("gpu_", "kv_")}, []),
        (
            [FULL],
            {"a": VLLM.replace("gpu_cache_usage_perc", "renamed")},
            [f"a full absent: {KV}"],
        ),
        (
            [STUCK],
            {"a": "vllm:kv_cache_usage_perc", "b": VLLM},
            ["a stuck absent: vllm:num_requests_running, vllm:tokens_total"],
        ),
        # The runtime that is configured counts, else the one most of whose series are there.
        (
            [STUCK],
            {"a/sglang": VLLM},
            ["a stuck absent: sglang:num_running_reqs, sglang:tokens_total"],
        ),
        ([STUCK], {"a": "sglang:num_running_reqs sglang:tokens_total"}, []),
        # No rule makes the signal for the runtime, and nothing else of the verdict sees it.
        ([FULL], {"a": "sglang:num_running_reqs"}, ["a full unsupported: engine:kv:ratio"]),
        ([FULL], {"a/triton": "nv_x"}, ["a full unsupported: engine:kv:ratio"]),
        # One alert of the verdict does, and the other is a refinement.
        (
            [STUCK, "stuck| engine:kv:ratio > 2"],
            {"a": "sglang:num_running_reqs sglang:tokens_total"},
            [],
        ),
        # A page on which nothing is known; and one that is no engine's.
        ([FULL], {"a": "node_cpu"}, ["a full unrecognised: engine:kv:ratio"]),
        ([FULL], {"a": "process_start_time_seconds"}, []),
        ([FULL, "gpu| DCGM_XID > 0"], {"a": "DCGM_XID"}, []),
        # A rule on raw series is about those who export some of them.
        (
            ["gpu| DCGM_XID > 0 and DCGM_ECC > 0"],
            {"a": "DCGM_XID", "b": VLLM},
            ["a gpu absent: DCGM_ECC"],
        ),
        # Any alert of a verdict that lacks its inputs.
        (
            ["s| engine:running:sum", "s| engine:kv:ratio", "s| engine:tokens:rate1m"],
            {"a": "vllm:num_requests_running"},
            [f"a s absent: {KV}, vllm:tokens_total"],
        ),
        # Not about this target, by its own labels.
        (['full| engine:kv:ratio{job="k"} > 1'], {"a": "vllm:num_requests_running"}, []),
        (
            ['full| engine:kv:ratio{job="j", reason="x"} > 1'],
            {"a": "vllm:num_requests_running"},
            [f"a full absent: {KV}"],
        ),
        # Optional, by the convention for rule authors.
        ([STUCK + " or 0 * up"], {"a": "vllm:kv_cache_usage_perc"}, []),
        # A dead target is not blind.
        ([STUCK, FULL], {"a": "down"}, []),
        (["dead| up == 0"], {"a": VLLM, "b": "node_cpu"}, []),
    ],
)
def test_who_is_blind_to_what(rules: list[str], pages: dict[str, str], blind: list[str]) -> None:
    assert Fleet(*alerts(*rules)).look(pages) == blind


def test_a_dead_target_keeps_what_was_known_of_it() -> None:
    fleet = Fleet(*alerts(STUCK))
    lacking = ["a stuck absent: vllm:tokens_total"]
    assert fleet.look({"a": "vllm:num_requests_running"}) == lacking
    assert fleet.look({"a": "down"}) == lacking
    assert fleet.look({"a": VLLM}) == []
    assert fleet.look({"a": "down"}) == []
    # A page without one known name is still that of the engine it was.
    assert fleet.look({"a": "vllm:renamed"}) == [
        "a stuck absent: vllm:num_requests_running, vllm:tokens_total"
    ]
    assert fleet.look({}) == []


def test_the_sample_says_it_all() -> None:
    fleet = Fleet(*alerts(STUCK, FULL, FULL))
    fleet.look({"a": "vllm:num_requests_running vllm:tokens_total"}, team="x")
    (blind,) = fleet.state.all_blind()
    assert blind.sample().value == 1.0
    assert dict(blind.sample().labels) == {
        "__name__": "enginewatch_hazard_blind",
        "verdict": "full",
        "instance": "a",
        "job": "j",
        "deployment": "d",
        "runtime": "vllm",
        "missing": KV,
        "cause": "absent",
        "alerts": "A1, A2",
    }


def test_alerts_without_a_verdict_are_no_hazards() -> None:
    text = "groups: [{name: g, rules: [{alert: A, expr: engine:kv:ratio}]}]"
    files = parse_rule_file(ENGINES, "e.yml"), parse_rule_file(text, "h.yml")
    assert Fleet(*files).look({"a": "vllm:num_requests_running"}) == []


def test_an_alert_that_engines_only_excuse_is_not_about_them() -> None:
    """A line of a log, unless the engine serves: no engine is blind for want of such a line."""
    alert = "groups: [{name: g, rules: [{alert: A, expr: %s, labels: {verdict: oom}}]}]"
    for expr, blind in (("line unless engine:kv:ratio", 0), ("line and engine:kv:ratio", 1)):
        files = parse_rule_file(ENGINES, "e.yml"), parse_rule_file(alert % expr, "h.yml")
        assert len(Fleet(*files).look({"a": "vllm:num_requests_running"})) == blind, expr


def test_an_alert_is_explained_down_to_raw_series(tmp_path: Path) -> None:
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "stuck.md").touch()
    tracer = Tracer(alerts("stuck| engine:load:ratio > 1 unless ALERTS or up"))
    (found,) = explain(tracer, "A0", tmp_path)
    assert (
        list(describe(found))
        == dedent(f"""\
        alert A0  hazards.yml:4
          verdict: stuck
        expression
          engine:load:ratio > 1 unless ALERTS or up
        fed by
          ALERTS  (enginewatch's own)
          engine:load:ratio  engines.yml:16
            engine:running:sum [vllm]  engines.yml:5
              vllm:num_requests_running
            engine:running:sum [sglang]  engines.yml:12
              sglang:num_running_reqs
          up  (the scraper's own)
        runbook: {tmp_path}/runbooks/stuck.md""").splitlines()
    )
    with pytest.raises(RuleError, match="known here: A0"):
        explain(tracer, "A1", tmp_path)


def test_series_are_kept_as_far_back_as_rules_and_templates_look() -> None:
    body = """\
    groups:
    - name: g
      rules:
      - {record: r, expr: "rate(a[1h] offset 10m) + b"}
      - alert: A
        expr: max_over_time(r[30m:1m]) > 1
        annotations: {x: '{{ query "c" }} {{ query "(" }}'}
    """
    kept = kept_series([parse_rule_file(dedent(body), "r.yml")])
    assert {name: kept[name] // 60_000 for name in ("a", "b", "c", "r", "up")} == {
        "a": 70,
        "b": 5,
        "c": 5,
        "r": 35,
        "up": 5,
    }
    assert None not in kept


def test_rules_are_told_apart_by_identity_not_by_text() -> None:
    tracer = Tracer(alerts("a", "a"))
    first, second = tracer.alerts
    assert isinstance(first, AlertingRule)
    assert first != second
