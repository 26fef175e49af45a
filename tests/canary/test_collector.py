"""The daemon's canary on a clock of the test's: batches, budget, saturation, restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.canary.engine import right
from tests.support.samples import series_at

from enginewatch.canary.baseline import Answer, Baseline, Known, write_baseline
from enginewatch.canary.errors import CanaryError
from enginewatch.canary.task import Kind, Task
from enginewatch.collect.canary import SATURATED, CanaryCollector
from enginewatch.collect.canary_budget import Budget
from enginewatch.collect.rounds import Writers
from enginewatch.config import ConfigFileError, parse_config
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.model import METRIC_NAME, Labels, Sample
from enginewatch.store.head import Head

TASKS = [
    Task(f"{family}-{n}", family, f"{family} {n}?", Kind.NUMBER, str(n), max_tokens=10)
    for family in ("sums", "code")
    for n in range(30)
]
ALERT = {"deployment": "j", "verdict": "quality_collapse", "instance": "a:1", "job": "j"}
MINUTE = 60_000


class Rig:
    """One engine, of which `answer` gives the status and the text."""

    def __init__(self, folder: Path, settings: str = ""):
        path = folder / "baseline.jsonl"
        if not path.exists():
            known = tuple(Known(task, (Answer(right(task), True),) * 2) for task in TASKS)
            path.write_text("".join(f"{line}\n" for line in write_baseline(Baseline(known))))
        text = (
            f"canary: {{baseline: baseline.jsonl, logprobs: 'off'{settings}}}\n"
            "storage: {path: data}\n"
            "scrape_configs: [{job_name: j, static_configs: [{targets: ['a:1']}]}]\n"
        )
        self.config = parse_config(text, folder / "e.yml")
        self.now = 1_000_000_000
        self.head = Head()
        self.write = Writers(self.head)
        self.ring = EvidenceRing()
        self.tasks = {task.prompt: task for task in TASKS}
        self.answer: Callable[[Task], tuple[int, str]] = lambda task: (200, right(task))
        self.asked: list[Task] = []
        self.together = self.most = 0

    def collector(self, seed: str = "1") -> CanaryCollector:
        return CanaryCollector(
            self.config,
            self.head,
            self.write,
            clock=self._clock,
            ring=self.ring,
            transports=lambda _: httpx.MockTransport(self._answer),
            seed=seed,
        )

    def _clock(self) -> int:
        self.now += 1
        return self.now

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "m"}]})
        task = self.tasks[json.loads(request.content)["prompt"]]
        self.asked.append(task)
        self.together += 1
        self.most = max(self.most, self.together)
        await asyncio.sleep(0)
        self.together -= 1
        status, text = self.answer(task)
        body = {"choices": [{"text": text}], "usage": {"total_tokens": 20}}
        return httpx.Response(status, json=body)

    async def batches(self, one: CanaryCollector, count: int, step: int = MINUTE) -> None:
        """So many looks, a minute apart, each until its batch is answered."""
        for _ in range(count):
            self.now += step
            await one.look()
            for each in one._watched.values():
                if each.flight is not None:
                    await each.flight
            self.now += 1_000
            for each in one._watched.values():
                one._tell(each, self.now)

    def play(self, *acts: Callable[[CanaryCollector], Awaitable[Any]], seed: str = "1") -> None:
        async def whole() -> None:
            one = self.collector(seed)
            for act in acts:
                await act(one)
            await one.stop()

        asyncio.run(whole())

    def values(self, name: str, at: int | None = None) -> dict[tuple[str, str], float]:
        found = series_at(self.head, f"enginewatch_canary_{name}", at or self.now)
        return {
            (labels.get("test", "") or labels.get("reason", ""), labels.get("family", "")): value
            for labels, value in found.items()
        }

    def saturate(self, value: float) -> None:
        own = {"instance": "a:1", "job": "j", "deployment": "j", "reason": "requests_waiting"}
        sample = Sample(Labels(own, **{METRIC_NAME: SATURATED}), value)
        self.write("rules", self.now, [sample])


def test_batches_are_asked_at_once_and_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    seen: dict[str, Any] = {}

    async def note(one: CanaryCollector) -> None:
        seen.update(rig.values("answers_total"), evidence=rig.values("evidence_ratio"))
        seen["labels"] = next(iter(series_at(rig.head, "enginewatch_canary_tokens_total", rig.now)))

    rig.play(lambda one: rig.batches(one, 4), note)
    assert len(rig.asked) >= 48
    assert rig.most > 8, "together, not one after the other"
    assert {task.family for task in rig.asked} == {"sums", "code"}
    assert seen[("", "overall")] == len(rig.asked)
    assert max(seen["evidence"].values()) < 0.5
    assert seen["labels"] == Labels(instance="a:1", job="j", deployment="j", model="m")
    assert rig.values("answers_total") == {}, "a collector that ended says nothing"


def test_a_third_of_the_answers_wrong_is_an_alarm_within_64(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    bad = {task.id for task in TASKS[::3]}
    found: list[int] = []

    def spoil(_: CanaryCollector) -> Awaitable[None]:
        rig.answer = lambda task: (200, "<b>no</b> 77" if task.id in bad else right(task))
        rig.asked.clear()
        return asyncio.sleep(0)

    async def until_the_alarm(one: CanaryCollector) -> None:
        while rig.values("evidence_ratio")[("steady", "overall")] < 1:
            await rig.batches(one, 1)
        found.append(len(rig.asked))
        lines = rig.ring.lines(ALERT, rig.now)
        assert 1 <= len(lines) <= 5
        assert "baseline: " in lines[0]
        assert "<b>no</b> 77" in lines[0]

    rig.play(lambda one: rig.batches(one, 10), spoil, until_the_alarm)
    assert found[0] <= 64


def test_a_saturated_engine_is_left_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    skipped: dict[tuple[str, str], float] = {}

    async def busy(one: CanaryCollector) -> None:
        for _ in range(5):
            rig.saturate(1)
            await rig.batches(one, 1, 5_000)
            rig.now += 50_000
        assert rig.asked == []
        skipped.update(rig.values("skipped_batches_total"))
        rig.saturate(0)
        await rig.batches(one, 3)

    rig.play(busy)
    assert skipped[("saturated", "")] >= 2
    assert rig.asked


def test_tokens_are_budgeted_and_no_dear_task_is_left_out(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ", batch: 10, tokens_per_hour: 1000")
    rig.play(lambda one: rig.batches(one, 60))
    # 1,000 at the beginning and 1,000 more in the hour, at 20 an answer.
    assert 60 <= len(rig.asked) <= 110


def test_what_an_engine_does_not_answer_is_no_evidence(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.answer = lambda _: (503, "")
    seen: dict[tuple[str, str], float] = {}

    async def note(one: CanaryCollector) -> None:
        seen.update(rig.values("evidence_ratio"))
        last = rig.values("last_answer_timestamp_seconds")
        assert last[("", "")] * 1000 < rig.now - 4 * MINUTE
        found = series_at(rig.head, "enginewatch_canary_unanswered_total", rig.now)
        assert {labels["result"] for labels in found} == {"starting"}

    rig.play(lambda one: rig.batches(one, 6), note)
    assert set(seen.values()) == {0.0}


def test_evidence_survives_a_restart_but_not_another_baseline(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.answer = lambda task: (200, "7")
    before: dict[tuple[str, str], float] = {}

    async def note(into: dict[tuple[str, str], float]) -> None:
        into.update(rig.values("evidence_ratio"))

    rig.play(lambda one: rig.batches(one, 2), lambda _: note(before))
    assert before[("steady", "overall")] >= 1
    again = Rig(tmp_path)
    after: dict[tuple[str, str], float] = {}

    async def look(one: CanaryCollector) -> None:
        await one.look()
        after.update(again.values("evidence_ratio"))

    again.play(look)
    assert after[("steady", "overall")] == before[("steady", "overall")]
    other = Rig(tmp_path, ", accept_drop: 0.01")
    fresh: dict[tuple[str, str], float] = {}

    async def see(one: CanaryCollector) -> None:
        await one.look()
        fresh.update(other.values("evidence_ratio"))

    other.play(see)
    assert set(fresh.values()) == {0.0}


def test_a_state_that_can_not_be_kept_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    rig = Rig(tmp_path)
    rig.play(lambda one: rig.batches(one, 2))
    assert rig.asked


def test_a_baseline_that_can_not_be_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    (tmp_path / "baseline.jsonl").write_text("{}")
    with pytest.raises(CanaryError, match="not a baseline"):
        rig.collector()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("canary: {}", "canary[0].baseline: is missing"),
        ("canary: {baseline: b, jobs: [x]}", "no job is called 'x'"),
        ("canary: {baseline: b, batch: 0}", "batch"),
        ("canary: {baseline: b, concurrency: 4}", "it is called batch"),
        ("canary: {baseline: b, interval: 0s}", "interval"),
        ("canary: [{baseline: b, jobs: [j, j]}]", "given twice"),
    ],
)
def test_what_is_wrong_with_the_section_is_said(section: str, said: str) -> None:
    with pytest.raises(ConfigFileError) as failure:
        parse_config(f"{section}\nscrape_configs: [{{job_name: j}}]\n", Path("e.yml"))
    assert said in str(failure.value)


def test_a_budget_fills_and_overdraws() -> None:
    budget = Budget(3_600, 0)
    assert budget.allows(3_600, 0)
    budget.spend(3_000, 0)
    assert not budget.allows(1_000, 0)
    assert budget.allows(1_000, 400_000)
    budget.spend(5_000, 400_000)
    assert budget.left(400_000) == -4_000
    assert not budget.allows(1, 4_300_000)
    assert budget.allows(99_999, 100_000_000), "a batch dearer than an hour waits for a full one"
