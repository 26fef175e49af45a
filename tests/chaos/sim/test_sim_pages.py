"""Each dialect's page before the rule pack, in virtual time; and vLLM's beside the real one's."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from tests.chaos.sim.served import Served
from tests.chaos.sim.virtual import Client

from enginewatch.alerting.events import AlertChange, ChangeKind
from enginewatch.alerting.rules import load_rule_files
from enginewatch.promql.evaluator import Evaluator
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.values import Vector
from enginewatch.recording import ScrapeEvent
from enginewatch.replay import Replay
from enginewatch.rulepack import rule_files, rules_path

DATA = Path(__file__).parents[2] / "data"
WITHOUT = {
    "vllm": {"engine:http_requests_failed:ratio1m"},  # nothing has failed
    # Both serve the multiprocess registry, which has no process_start_time_seconds.
    "trtllm": {"engine:uptime_seconds:now"},
    "sglang": {"engine:uptime_seconds:now"},
}
DIALECTS = ("vllm", "vllm-old", "trtllm", "triton", "sglang", "nim")


def told(replay: Replay, events: Iterable[ScrapeEvent]) -> list[tuple[ChangeKind, str]]:
    """Beginnings and ends of what a person is told."""
    return [
        (each.kind, each.alert.name)
        for each in replay.run(events)
        if isinstance(each, AlertChange)
        and each.kind in {ChangeKind.FIRING, ChangeKind.RESOLVED}
        and each.alert.labels["severity"] in {"page", "ticket"}
    ]


def decodes(count: int = 8) -> list[Client]:
    return [Client(f"d{n}", 40, 60) for n in range(count)]


def flood() -> list[Client]:
    return [Client(f"f{n}", 3000, 2) for n in range(6)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_canonical_series_of_its_engine_file_is_there(dialect: str) -> None:
    runtime = dialect.partition("-")[0]
    served = Served(dialect)
    served.join(decodes(2))
    replay = Replay(load_rule_files(rule_files()))
    events = list(served.run(80))
    assert told(replay, events) == []
    groups = yaml.safe_load((rules_path() / "engines" / f"{runtime}.yml").read_text())["groups"]
    names = {rule["record"] for group in groups for rule in group["rules"]}
    ask = Evaluator(replay.judge.head)
    at = events[-1].at
    missing = {
        name
        for name in names
        if not isinstance(found := ask.instant(parse_expr(name), at), Vector)
        or not found.present.any()
    }
    assert missing == WITHOUT.get(runtime, set())


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
def test_a_flood_of_prompts_is_starvation_and_then_is_over(dialect: str) -> None:
    served = Served(dialect)
    served.join(decodes())
    replay = Replay(load_rule_files(rule_files()))
    assert told(replay, served.run(90)) == []
    prompts = flood()
    served.join(prompts)
    assert (ChangeKind.FIRING, "EnginePrefillStarvation") in told(replay, served.run(75))
    served.leave(prompts)
    assert (ChangeKind.RESOLVED, "EnginePrefillStarvation") in told(replay, served.run(150))


@pytest.mark.parametrize("dialect", ["vllm", "triton"])
def test_a_step_that_does_not_end_is_a_stuck_engine(dialect: str) -> None:
    served = Served(dialect)
    served.join(decodes())
    replay = Replay(load_rule_files(rule_files()))
    assert told(replay, served.run(60)) == []
    assert told(replay, served.stand_still(120)) == [(ChangeKind.FIRING, "EngineStuck")]


def test_trtllms_page_does_not_move_before_a_request_completes() -> None:
    served = Served("trtllm")
    served.join([Client("long", 40, 4000)])
    pages = [event.body for event in served.run(30)]
    assert len(set(pages)) == 1
    assert len(served.page.iterations) > 100


def test_a_cache_too_small_is_a_preemption_storm() -> None:
    served = Served("vllm", kv_tokens=5120)
    served.join([Client(f"d{n}", 100, 600) for n in range(14)])
    replay = Replay(load_rule_files(rule_files()))
    assert (ChangeKind.FIRING, "EnginePreemptionStorm") in told(replay, served.run(190))


def families(page: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (vllm:\S+) (\w+)$", page, re.MULTILINE))


def labels(page: str) -> dict[str, set[str]]:
    """Label names of each sample's name; what a cache is configured with is the engine's own."""
    found: dict[str, set[str]] = {}
    for name, given in re.findall(r"^(vllm:[\w:]+)\{(.*)\} ", page, re.MULTILINE):
        if "cache_config" not in name:
            found[name] = set(re.findall(r'(\w+)="', given))
    return found


def test_vllms_page_has_the_families_and_labels_of_the_real_one() -> None:
    recording = lzma.open(DATA / "vllm-prefill-flood.prom.xz", "rt").read()  # noqa: SIM115
    real = recording.split("# SCRAPE")[60]
    served = Served("vllm")
    served.join(decodes(2))
    page = (list(served.run(10))[-1].body or b"").decode()
    assert families(page) == families(real)
    assert labels(page) == labels(real)
