"""What makes the pack portable, complete and readable, checked on every rule of it.

Portable: it means the same in Prometheus 2 and 3, in VictoriaMetrics and here.
Complete: each alert has its runbook and its three kinds of test, each engine its
canonical series.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from enginewatch.alerting.rules import Rule
from enginewatch.model import METRIC_NAME
from enginewatch.notify.threshold import ANNOTATION
from enginewatch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    MatrixSelector,
    Paren,
    Subquery,
    VectorSelector,
)
from enginewatch.promql.parser import parse_expr

if TYPE_CHECKING:
    from conftest import Pack

VERDICTS: Final = {
    "engine_mismatch",
    "prefill_starvation",
    "cuda_oom",
    "collective_hang",
    "quality_collapse",
    "stuck_engine",
    "engine_dead",
    "preemption_storm",
    "gpu_fault",
    "metrics_untrusted",
    "readiness",
    "watchdog_self",
}
ALWAYS: Final = "Watchdog"
"""The alert that always fires: no near miss, nobody's page."""

RUNBOOK: Final = re.compile(
    r"https://github\.com/enginewatch/enginewatch/blob/main/rules/(runbooks/\w+\.md)"
)
SECTIONS: Final = ["Meaning", "Impact", "Diagnosis", "Mitigation"]

# In VictoriaMetrics these count from the sample before the window, or take the first sample
# of a series for a change from zero: `changes(process_start_time_seconds[10m]) > 0` was seen
# to fire for all of 101 fresh targets.
FIRST_SAMPLE_MATTERS: Final = frozenset({"changes", "delta", "idelta", "increase"})
# Four scrapes of 5 s: a window's edge is open in Prometheus 3 and closed in 2.
SHORTEST_RANGE_MS: Final = 20_000

# What an engine cannot have, and why. All else that one engine file records, all record.
CANNOT: Final = {
    "trtllm": {
        "engine:progress_signals:window_count": "series move only when a request completes",
        "engine:requests_waiting:window_min": "the same: a queue as of the last completion",
        "engine:preemptions:rate1m": "no counter",
    },
    "triton": {
        "engine:inter_token_latency_seconds:mean30s": "not exported",
        "engine:preemptions:rate1m": "a gauge of paused requests only",
        "engine:uptime_seconds:now": "not exported",
    },
    "nim": {"engine:preemptions:rate1m": "no counter"},
    "sglang": {"engine:requests_failed:rate1m": "no counter of the server's own failures"},
    "dynamo": {
        "engine:requests_waiting:window_min": "a front end's queue lasts until the first token",
        "engine:preemptions:rate1m": "the engines' own pages have it",
    },
}
# Of one engine alone: its own features, or its own defects.
PECULIAR: Final = {
    "engine:asleep:bool": "vllm",
    "engine:requests_aborted:increase1m": "vllm",
    "engine:http_requests_failed:ratio1m": "vllm",
    "engine:spec_decode_drafts:rate1m": "vllm",
    "engine:requests_finished:rate30s": "vllm",
    "engine:requests_corrupted:increase5m": "vllm",
    "engine:requests_cut_off:share5m": "vllm",
    "engine:requests_finished:total": "triton",
    "engine:workers:sum": "dynamo",
}
TARGET: Final = {"instance", "job", "deployment"}
ENGINE: Final = TARGET | {"model", "rank"}


def where(rule: Rule) -> str:
    return f"{Path(rule.file).name}:{rule.line} {rule.name}"


def metric_names(expr: Expr) -> Iterator[str]:
    for node in expr.walk():
        if isinstance(node, VectorSelector):
            yield node.name


def test_no_function_that_first_samples_confuse(pack: Pack) -> None:
    found = [
        f"{where(rule)}: {node.func}()"
        for rule in pack.rules
        for node in rule.expr.walk()
        if isinstance(node, Call) and node.func in FIRST_SAMPLE_MATTERS
    ]
    assert not found


def test_ranges_hold_four_scrapes(pack: Pack) -> None:
    found = [
        f"{where(rule)}: [{node.range} ms]"
        for rule in pack.rules
        for node in rule.expr.walk()
        if isinstance(node, MatrixSelector | Subquery) and node.range < SHORTEST_RANGE_MS
    ]
    assert not found


def test_no_bucket_is_asked_for_by_its_bound(pack: Pack) -> None:
    """Prometheus 3 writes `le="1.0"` where 2 and the page write `le="1"`."""
    found = [
        where(rule)
        for rule in pack.rules
        for node in rule.expr.walk()
        if isinstance(node, VectorSelector)
        and any(matcher.name == "le" for matcher in node.matchers)
    ]
    assert not found


def test_names_are_written_out(pack: Pack) -> None:
    """A name by regular expression hides from coverage what a rule needs."""
    for rule in pack.rules:
        for node in rule.expr.walk():
            if isinstance(node, VectorSelector):
                assert node.name, where(rule)
                named = [m for m in node.matchers if m.name == METRIC_NAME]
                assert len(named) == 1, where(rule)


def test_hazards_read_no_engine_by_its_own_names(pack: Pack) -> None:
    """So that a new engine is one file, and no hazard knows of it."""
    allowed = re.compile(r"engine:|gpu:|enginewatch_|up$|scrape_samples_scraped$")
    for rule in pack.rules:
        if Path(rule.file).parent.name == "hazards":
            assert all(map(allowed.match, metric_names(rule.expr))), where(rule)


def test_all_that_is_read_is_recorded(pack: Pack) -> None:
    recorded = {rule.name for rule in pack.recordings}
    read = {name for rule in pack.rules for name in metric_names(rule.expr)}
    assert not {name for name in read if name.startswith(("engine:", "gpu:"))} - recorded


def test_names_are_unique(pack: Pack) -> None:
    alerts = Counter(rule.name for rule in pack.alerts)
    assert not [name for name, count in alerts.items() if count > 1]
    assert len(set(pack.groups)) == len(pack.groups)


def test_an_alert_says_what_it_is(pack: Pack) -> None:
    for rule in pack.alerts:
        assert re.fullmatch(r"(Engine|Gpu|Watchdog)([A-Z][a-z]+)*", rule.name)
        assert set(rule.labels) == {"verdict", "severity"}, where(rule)
        assert rule.label("verdict") in VERDICTS, where(rule)
        assert rule.label("verdict") == Path(rule.file).stem, where(rule)
        severities = {"none"} if rule.name == ALWAYS else {"page", "ticket", "info"}
        assert rule.label("severity") in severities, where(rule)


def test_labels_do_not_change_at_each_evaluation(pack: Pack) -> None:
    """A label is identity: with a value in it, every evaluation is a new alert."""
    for rule in pack.alerts:
        assert not any("$value" in label.text for label in rule.labels.values()), where(rule)


def test_an_alert_says_what_to_do(pack: Pack) -> None:
    for rule in pack.alerts:
        said = set(rule.annotations) - {ANNOTATION}
        assert said == {"summary", "description", "runbook_url"}, where(rule)
        about_itself = rule.label("verdict") == "watchdog_self"
        subject = "enginewatch: " if about_itself else "{{ $labels.deployment }}: "
        assert rule.annotations["summary"].text.startswith(subject)
        assert "Next: " in rule.annotations["description"].text, where(rule)


def test_every_runbook_is_there_and_complete(pack: Pack) -> None:
    for rule in pack.alerts:
        url = RUNBOOK.fullmatch(rule.annotations["runbook_url"].text)
        assert url, where(rule)
        path = pack.root / url[1]
        assert path.is_file(), where(rule)
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS, path.name
        assert rule.name in text, f"{path.name} does not tell of {rule.name}"


def test_every_alert_fires_and_stays_silent_in_tests(pack: Pack) -> None:
    """`fires`, `near miss` and `lookalike`: the first word after the alert's name."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for story in pack.stories:
        match = re.match(r"((?:Engine|Gpu|Watchdog)\w*) (fires|near miss|lookalike): ", story.name)
        assert match, story.name
        alert, kind = match.groups()
        kinds[alert].add(kind)
        cases = [case for case in story.alerts if case.alertname == alert]
        if kind == "fires":
            shown = any(case.expected for case in cases)
            assert shown or any(alert in case.text for case in story.exprs), story.name
        else:
            assert cases, story.name
            assert not any(case.expected for case in cases), story.name
    for rule in pack.alerts:
        wanted = {"fires"} if rule.name == ALWAYS else {"fires", "near miss", "lookalike"}
        assert kinds[rule.name] == wanted, where(rule)


def test_every_engine_has_the_canonical_series_that_it_can(pack: Pack) -> None:
    recorded: dict[str, set[str]] = defaultdict(set)
    for engine, rule in pack.of_engines():
        recorded[engine].add(rule.name)
    assert set(recorded) == {"vllm", "trtllm", "triton", "nim", "sglang", "dynamo"}
    for name, engine in PECULIAR.items():
        assert [e for e, names in recorded.items() if name in names] == [engine], name
    everyone = set().union(*recorded.values()) - set(PECULIAR)
    for engine, names in recorded.items():
        assert everyone - names == set(CANNOT.get(engine, {})), engine


def test_canonical_series_are_labelled_alike(pack: Pack) -> None:
    for engine, rule in pack.of_engines():
        assert dict(rule.labels) == {"runtime": engine}, where(rule)
        for labels in results(rule.expr):
            assert TARGET <= labels <= ENGINE, f"{where(rule)}: {sorted(labels)}"


def test_a_canonical_name_tells_what_and_how(pack: Pack) -> None:
    for rule in pack.recordings:
        assert re.fullmatch(r"(engine|gpu):[a-z_]+:[a-z][a-z0-9_]*", rule.name), where(rule)


def results(expr: Expr) -> Iterator[set[str]]:
    """The labels of an expression's results, one set for each side of `or`.

    Raises AssertionError where they can't be told: something that isn't aggregated.
    """
    match expr:
        case Paren():
            yield from results(expr.expr)
        case Aggregate(without=False):
            yield set(expr.grouping)
        case Call(func="histogram_quantile"):
            for labels in results(expr.args[1]):
                yield labels - {"le"}
        case Binary(op="or"):
            yield from results(expr.left)
            yield from results(expr.right)
        case Binary():
            sides = [side for side in (expr.left, expr.right) if side.type == "instant vector"]
            found = [set(map(frozenset, results(side))) for side in sides]
            assert all(each == found[0] for each in found), f"sides differ: {found}"
            yield from map(set, found[0])
        case _:
            raise AssertionError(f"not aggregated: {expr}")


def test_labels_of_results_are_told() -> None:
    text = "sum by (a) (x) / (sum by (a) (y) > 0) or histogram_quantile(0.9, sum by (b, le) (z))"
    assert list(results(parse_expr(text))) == [{"a"}, {"b"}]
