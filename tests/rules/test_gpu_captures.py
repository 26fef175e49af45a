"""Readings taken from a real H200, judged by the shipped rules: healthy is silent, and what a
waiting kernel draws is told from work by the share of the limit that EngineRanksSpin asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.rules.conftest import Pack

from enginewatch.alerting.events import AlertChange, ChangeKind
from enginewatch.alerting.rules import RuleFile, load_rule_files
from enginewatch.model import Labels
from enginewatch.recording import Event, SamplesEvent, ScrapeEvent
from enginewatch.replay import Replay
from enginewatch.rulepack import rule_files, rules_path

CAPTURES = Path(__file__).parents[1] / "data" / "gpu"
START, STEP, LONG = 1_700_000_000_000, 5_000, 60
HOST = Labels(instance="n1", job="nvml", deployment="chat")
ENGINE = Labels(instance="a:8000", job="v", deployment="chat")
Reading = tuple[str, Mapping[str, str], float]


def capture(name: str) -> Any:
    return json.loads((CAPTURES / f"h200-{name}.json").read_text())


def readings() -> list[Reading]:
    """All that was read of a GPU at rest."""
    found = capture("readings")
    uuids = found["uuids"]
    return [
        (
            each["name"],
            {"gpu": each["gpu"], "uuid": uuids[int(each["gpu"])], **each["labels"]},
            each["value"],
        )
        for each in found["values"]
    ]


def page(values: Iterable[Reading]) -> bytes:
    lines = (f"{Labels(labels, __name__=f'enginewatch_nvml_{n}')!r} {v}" for n, labels, v in values)
    return "\n".join(lines).encode()


def alerts(files: Sequence[RuleFile], events: Iterable[Event]) -> set[str]:
    return {
        change.alert.name
        for change in Replay(files).run(events)
        if isinstance(change, AlertChange) and change.kind is ChangeKind.FIRING
    }


def polled(*polls: Iterable[Reading]) -> Iterator[Event]:
    """The polls one after the other, the last of them for the rest of five minutes."""
    pages = [page(values) for values in polls]
    for step in range(LONG):
        body = pages[min(step, len(pages) - 1)]
        yield SamplesEvent(HOST, START + step * STEP, "nvml", body)


def with_(values: Iterable[Reading], name: str, value: float) -> list[Reading]:
    return [(own, labels, value if own == name else v) for own, labels, v in values]


@pytest.fixture(scope="module")
def gpu_rules() -> tuple[RuleFile, ...]:
    root = rules_path()
    return load_rule_files([root / "engines" / "gpu.yml", root / "hazards" / "gpu_fault.yml"])


def test_a_healthy_gpu_is_silent(gpu_rules: Sequence[RuleFile]) -> None:
    assert alerts(gpu_rules, polled(readings())) == set()


def test_a_gpu_that_fills_up_is_no_fault(gpu_rules: Sequence[RuleFile]) -> None:
    polls = [
        with_(readings(), "memory_free_bytes", each["free"]) for each in capture("headroom")[::5]
    ]
    assert alerts(gpu_rules, polled(*polls)) == set()


@pytest.mark.parametrize("doing", ["idle", "wait", "matmul"])
def test_neither_rest_nor_work_nor_waiting_is_a_fault(
    gpu_rules: Sequence[RuleFile], doing: str
) -> None:
    power = next(each for each in capture("power") if each["doing"] == doing)
    drawn = with_(readings(), "power_watts", power["watts"])
    busy = with_(drawn, "utilization_ratio", power["utilization"])
    assert alerts(gpu_rules, polled(busy)) == set()


@pytest.mark.parametrize(
    ("name", "value", "alert"),
    [
        ("up", 0, "GpuLost"),
        ("row_remap_failure", 1, "GpuMemoryFaulty"),
        ("row_remap_pending", 1, "GpuRowRemapPending"),
        ("recovery_action", 1, "GpuRecoveryNeeded"),
    ],
)
def test_one_bad_reading_among_the_captured_ones_is_told(
    gpu_rules: Sequence[RuleFile], name: str, value: float, alert: str
) -> None:
    healthy = readings()
    assert alert in alerts(gpu_rules, polled(healthy, with_(healthy, name, value)))


STUCK = b"""\
vllm:num_requests_running{model_name="m",engine="0"} 4
vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.25
vllm:generation_tokens_total{model_name="m",engine="0"} 18000
vllm:prompt_tokens_total{model_name="m",engine="0"} 400
vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 9
"""


def beside_a_stuck_engine(power: Mapping[str, Any]) -> Iterator[Event]:
    """Two GPUs that do as the captured one did, and an engine that holds requests in vain."""
    values = [
        (name, {"gpu": gpu, "uuid": f"GPU-{gpu}"}, float(power[key]))
        for gpu in ("0", "1")
        for name, key in (
            ("utilization_ratio", "utilization"),
            ("power_watts", "watts"),
            ("power_limit_watts", "limit"),
        )
    ]
    for step in range(30):
        at = START + step * STEP
        yield ScrapeEvent(ENGINE, at, STUCK, status=200)
        yield SamplesEvent(HOST, at, "nvml", page(values))


@pytest.mark.parametrize("power", capture("power"), ids=lambda power: str(power["doing"]))
def test_only_kernels_that_wait_spin_at_low_power(power: Mapping[str, Any]) -> None:
    names = ("gpu.yml", "vllm.yml", "collective_hang.yml")
    files = load_rule_files([path for path in rule_files() if path.name in names])
    told = alerts(files, beside_a_stuck_engine(power))
    assert ("EngineRanksSpin" in told) is (power["doing"] == "wait")


def test_the_share_of_power_lies_between_waiting_and_work_with_room_on_both_sides(
    pack: Pack,
) -> None:
    (rule,) = [each for each in pack.recordings if each.name == "gpu:spins_at_low_power:bool"]
    found = re.search(r"< bool ([\d.]+) \* gpu:power_limit_watts:now", rule.text)
    assert found is not None
    share = float(found[1])
    drawn = {each["doing"]: each["watts"] / each["limit"] for each in capture("power")}
    assert 1.5 * drawn["wait"] <= share <= drawn["matmul"] / 1.5
