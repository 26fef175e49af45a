"""The prober: who is probed when, beside traffic that proves progress and targets that hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.samples import series_at

from enginewatch.alerting.rules import parse_rule_file
from enginewatch.collect.probe import Prober
from enginewatch.collect.probe_progress import RUNNING, Progress
from enginewatch.collect.rounds import Writers
from enginewatch.config import parse_config
from enginewatch.model import METRIC_NAME, Labels, Sample
from enginewatch.store.head import Head

RULE_FILE = """
groups:
  - name: engine
    rules:
      - record: engine:progress_signals:window_count
        expr: sum by (instance, job) (rate(tokens_total{kind="out"}[30s]) > bool 0)
"""
RULES = parse_rule_file(RULE_FILE, "engine.yml")
Answer = Callable[[httpx.Request], Coroutine[Any, Any, httpx.Response]]


async def token(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/v1/models":
        return httpx.Response(200, json={"data": [{"id": "m"}]})
    return httpx.Response(200, json={})


async def hang(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/v1/models":
        return await token(request)
    await asyncio.Event().wait()
    raise AssertionError


async def no_api(_: httpx.Request) -> httpx.Response:
    return httpx.Response(404)


class Rig:
    """Targets that are answered by a function each, scraped and probed every 5 s of a clock that
    the test moves; the deadline is a real one, of 30 ms."""

    def __init__(self, probe: str = "", **answers: Answer):
        self.answers = answers
        self.now = 1_000_000
        self.head = Head()
        self.write = Writers(self.head)
        self.asked: list[str] = []
        self.hurried: list[str] = []
        targets = ", ".join(f"{name}:1" for name in answers)
        jobs = f"[{{job_name: j, static_configs: [{{targets: [{targets}]}}]}}]"
        text = f"probe: {{timeout: 30ms{probe}}}\nscrape_configs: {jobs}\n"
        config = parse_config(text, Path("e.yml"))
        self.prober = Prober(
            config,
            Progress(lambda: (RULES,), self.head),
            self.write,
            clock=self._clock,
            hurry=lambda labels: self.hurried.append(labels["instance"]),
            transports=lambda target: httpx.MockTransport(self._answer),
        )

    def _clock(self) -> int:
        self.now += 1
        return self.now

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.asked.append(request.url.host)
        return await self.answers[request.url.host](request)

    def page(self, name: str, tokens: float, *, running: float) -> None:
        """What a scrape of the target brings."""
        own = Labels(instance=f"{name}:1", job="j", deployment="j")
        series = {"tokens_total": tokens, RUNNING: running}
        self.write(
            ("page", name),
            self.now,
            [
                Sample(own.with_(**{METRIC_NAME: metric, "kind": "out"}), value)
                for metric, value in series.items()
            ],
        )

    async def later(self, seconds: float) -> None:
        """Let the clock go on, look, and let probes end that end."""
        self.now += round(seconds * 1000)
        self.prober.look()
        for _ in range(40):
            await asyncio.sleep(0.002)

    def value(self, what: str, name: str = "a") -> float | None:
        found = series_at(self.head, f"enginewatch_probe_{what}", self.now)
        return {labels["instance"]: v for labels, v in found.items()}.get(f"{name}:1")


def test_an_engine_at_rest_is_probed_at_its_interval() -> None:
    async def story(rig: Rig) -> None:
        for _ in range(10):
            await rig.later(1)
        assert rig.asked == ["a", "a"]
        assert rig.value("success") == 1
        (labels,) = series_at(rig.head, "enginewatch_probe_success", rig.now)
        assert labels == Labels(instance="a:1", job="j", deployment="j", model="m")
        await rig.prober.stop()
        assert rig.value("success") is None

    asyncio.run(story(Rig(a=token)))


def test_an_engine_whose_traffic_gets_on_is_left_alone_and_probed_once_it_does_not() -> None:
    async def story(rig: Rig) -> None:
        for tokens in range(6):
            rig.page("a", tokens, running=3)
            await rig.later(5)
        assert rig.asked == []
        assert (rig.value("skipped"), rig.value("progress_age_seconds")) == (1, 0)
        rig.page("a", 5, running=3)
        await rig.later(1)
        assert rig.asked == ["a"]
        assert rig.value("skipped") == 0
        assert rig.value("progress_age_seconds") == pytest.approx(5, abs=0.1)
        await rig.prober.stop()

    asyncio.run(story(Rig(a=token)))


def test_what_a_probe_itself_moves_is_no_traffic() -> None:
    async def story(rig: Rig) -> None:
        for tokens in range(4):
            rig.page("a", tokens, running=0)
            await rig.later(5)
        assert rig.asked == ["a"] * 4
        await rig.prober.stop()

    asyncio.run(story(Rig(a=token)))


def test_one_that_hangs_hurts_only_itself() -> None:
    async def story(rig: Rig) -> None:
        rig.page("b", 1, running=0)
        for _ in range(20):
            await rig.later(1)
        assert rig.value("deadline_exceeded_total", "b") == rig.asked.count("b")
        assert rig.value("unanswered_seconds", "b") == pytest.approx(19, abs=0.2)
        # Asked again at once after the first, and then ever more seldom.
        assert rig.asked.count("b") == 4
        assert rig.asked.count("a") == 4
        assert rig.value("success", "a") == 1
        # Its page is looked at every second, for as long as that can tell something new.
        assert set(rig.hurried) == {"b:1"}
        assert len(rig.hurried) == 19
        for _ in range(10):
            await rig.later(1)
        assert len(rig.hurried) == 19
        rig.answers["b"] = token
        await rig.later(30)
        assert (rig.value("unanswered_seconds", "b"), rig.value("success", "b")) == (0, 1)
        await rig.prober.stop()

    asyncio.run(story(Rig(", concurrency: 1", a=token, b=hang)))


@pytest.mark.parametrize(("probe", "answer"), [("", no_api), (", enabled: false", token)])
def test_no_probes_where_none_are_taken_or_wanted(probe: str, answer: Answer) -> None:
    async def story(rig: Rig) -> None:
        for _ in range(12):
            await rig.later(5)
        assert rig.asked == []
        assert series_at(rig.head, "enginewatch_probe_sent_total", rig.now) == {}
        await rig.prober.stop()

    asyncio.run(story(Rig(probe, a=answer)))


def test_a_page_that_is_no_longer_there_says_nothing_of_progress() -> None:
    head = Head()
    progress = Progress(lambda: (RULES,), head)
    write = Writers(head)
    series = Labels({METRIC_NAME: "tokens_total", "kind": "out", "instance": "a:1", "job": "j"})
    write("page", 1_000, [Sample(series, 1.0)])
    assert progress.look(1_000)["a:1", "j"].age == 0
    write("page", 6_000, [Sample(series, 1.0)])
    assert progress.look(6_000)["a:1", "j"].age == 5_000
    write("page", 11_000, [])
    assert progress.look(11_000) == {}


def test_rules_that_were_edited_say_what_is_progress_from_then_on() -> None:
    head = Head()
    rules = (RULES,)
    progress = Progress(lambda: rules, head)
    write = Writers(head)

    def page(at: int, tokens: float, steps: float) -> int:
        kinds = {"tokens_total": {"kind": "out"}, "steps_total": {}}
        samples = [
            Sample(Labels({METRIC_NAME: name, "instance": "a:1", "job": "j", **kinds[name]}), value)
            for name, value in (("tokens_total", tokens), ("steps_total", steps))
        ]
        write("page", at, samples)
        return progress.look(at)["a:1", "j"].age

    assert page(1_000, 1, 1) == 0
    assert page(6_000, 1, 2) == 5_000
    edited = RULE_FILE.replace("> bool 0)", "> bool 0) + sum by (instance, job) (steps_total)")
    rules = (parse_rule_file(edited, "engine.yml"),)
    assert page(11_000, 1, 3) == 10_000  # the first value of a new series is no movement
    assert page(16_000, 1, 4) == 0
    assert page(21_000, 2, 4) == 0
    assert page(26_000, 2, 4) == 5_000
