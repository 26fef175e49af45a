"""The collector of GPUs against its real helper process, over a simulated driver."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.samples import series_at

from enginewatch.collect import nvml
from enginewatch.collect.nvml import NvmlCollector
from enginewatch.collect.scrape import wall_clock
from enginewatch.config import NvmlConfig
from enginewatch.model import METRIC_NAME, Matcher, MatchOp
from enginewatch.store.head import Head

pytestmark = pytest.mark.integration

WITHIN = 60.0


class Host:
    """A machine with two simulated GPUs and a collector over them."""

    def __init__(self, folder: Path, **config: Any):
        self.script = folder / "gpus.json"
        self.tree: dict[str, Any] = {"gpus": [{}, {}]}
        self.write()
        self.head = Head()
        self.config = NvmlConfig.model_validate(
            {
                "interval": "50ms",
                "timeout": "700ms",
                "instance": "node1",
                "deployments": {"chat": ["0"]},
                "simulation": str(self.script),
                **config,
            }
        )

    def write(self, **changes: Any) -> None:
        self.tree.update(changes)
        new = self.script.with_suffix(".new")
        new.write_text(json.dumps(self.tree))
        new.replace(self.script)

    def value(self, name: str, **labels: str) -> float | None:
        """Of the only live series of that name with these labels."""
        found = [
            value
            for series, value in series_at(
                self.head, f"enginewatch_nvml_{name}", wall_clock()
            ).items()
            if labels.items() <= dict(series).items()
        ]
        return found[0] if len(found) == 1 else None

    async def until(self, *wanted: tuple[str, float | None], **labels: str) -> None:
        deadline = time.monotonic() + WITHIN
        while [self.value(name, **labels) for name, _ in wanted] != [value for _, value in wanted]:
            assert time.monotonic() < deadline, wanted
            await asyncio.sleep(0.02)

    def watch(
        self, story: Callable[[NvmlCollector], Awaitable[None]], **options: Any
    ) -> NvmlCollector:
        collector = NvmlCollector(self.config, self.head, wall_clock, **options)

        async def run() -> None:
            collector.start()
            try:
                await story(collector)
            finally:
                await collector.stop()

        asyncio.run(run())
        return collector


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_FIRST_WAIT", 0.05)
    monkeypatch.setattr(nvml, "_LONGEST_WAIT", 0.1)


def test_readings_come_under_the_labels_of_the_host_and_its_deployments(tmp_path: Path) -> None:
    host = Host(tmp_path)

    async def story(_: NvmlCollector) -> None:
        await host.until(("power_watts", 128.127), gpu="0")

    host.watch(story, deployment="rest")
    matcher = Matcher(METRIC_NAME, MatchOp.EQUAL, "enginewatch_nvml_power_watts")
    ours = sorted(map(dict, host.head.series((matcher,), 0)), key=lambda one: one["gpu"])
    assert [(one["gpu"], one["uuid"], one["deployment"]) for one in ours] == [
        ("0", "GPU-0", "chat"),
        ("1", "GPU-1", "rest"),
    ]
    assert {(one["job"], one["instance"]) for one in ours} == {("nvml", "node1")}


def test_a_hang_is_told_until_a_poll_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(tmp_path)

    async def hang(_: NvmlCollector) -> None:
        await host.until(("hung", 0), ("available", 1))
        host.write(hang=True)
        await host.until(("hung", 1), ("available", 0))
        await host.until(("power_watts", None), gpu="0")
        await host.until(("helper_starts_total", 2))
        host.write(hang=False)
        await host.until(("hung", 0), ("available", 1))
        await host.until(("power_watts", 128.127), gpu="0")

    # Nor has a helper that was sent into the hang the whole minute to start, once it is known how
    # long one takes here.
    host.config = host.config.model_copy(update={"start_timeout": 10 * int(WITHIN) * 1000})
    with caplog.at_level(logging.INFO):
        collector = host.watch(hang)
    assert collector.starts >= 2
    assert sum("NVML hangs" in record.message for record in caplog.records) == 1


def test_a_gpu_that_disappears_is_down_even_for_a_new_helper(tmp_path: Path) -> None:
    host = Host(tmp_path, gpus=2)

    async def story(collector: NvmlCollector) -> None:
        await host.until(("gpus", 2), ("gpus_expected", 2))
        await host.until(("up", 1), gpu="1")
        host.write(gpus=[{}])
        assert collector._helper is not None
        collector._helper.kill()
        await host.until(("up", 0), gpu="1")
        await host.until(("up", 1), gpu="0")
        await host.until(("gpus", 1))

    host.watch(story)


def test_without_a_driver_it_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = Host(tmp_path)
    script = 'print(\'{"unavailable": "Driver Not Loaded"}\')'

    async def story(_: NvmlCollector) -> None:
        await host.until(("available", 0), ("hung", 0))
        await asyncio.sleep(0.5)

    with caplog.at_level(logging.INFO):
        collector = host.watch(story, command=[sys.executable, "-S", "-c", script])
    assert collector.starts >= 1
    told = [record.message for record in caplog.records if record.name == nvml.__name__]
    assert told == ["GPUs are not watched: Driver Not Loaded"]


def test_no_helper_is_started_where_no_driver_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "_DRIVERS", (str(tmp_path / "nvidiactl"),))
    host = Host(tmp_path)
    host.config = host.config.model_copy(update={"simulation": None})

    async def story(_: NvmlCollector) -> None:
        await host.until(("available", 0))

    assert host.watch(story).starts == 0


@pytest.mark.parametrize("line", ["not json", "[1]", "9" * 100])
def test_a_helper_that_talks_nonsense_is_replaced(tmp_path: Path, line: str) -> None:
    host = Host(tmp_path)

    async def story(_: NvmlCollector) -> None:
        await host.until(("helper_starts_total", 2))

    collector = host.watch(story, command=[sys.executable, "-S", "-c", f"print({line!r})"])
    assert collector.starts >= 2
    assert not collector.hung


def test_the_helper_is_gone_after_the_end(tmp_path: Path) -> None:
    host = Host(tmp_path)
    pids = []

    async def story(collector: NvmlCollector) -> None:
        await host.until(("available", 1))
        assert collector._helper is not None
        pids.append(collector._helper.pid)

    host.watch(story)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert series_at(host.head, "enginewatch_nvml_available", wall_clock()) == {}
