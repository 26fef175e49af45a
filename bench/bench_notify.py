"""Notifications: 10,000 alerts that change state at once, and receivers of three speeds.

The first table is what happens between an evaluation and the first attempt: inhibitions, routes,
groups, and the state file, whose fsync is the disk's. The second tells every receiver of wave
after wave; what a slow or a dead one has not taken must not pile up meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from enginewatch.alerting.snapshot import RuleKey, Snapshot
from enginewatch.alerting.state import Tracked
from enginewatch.cli.run import collect_garbage_seldom
from enginewatch.collect.scrape import steady_clock, wall_clock
from enginewatch.config import parse_config
from enginewatch.keeper import Keeper
from enginewatch.model import Alert, Labels, Millis, freeze
from enginewatch.notify.ledger import Changes
from enginewatch.notify.message import Receiver
from enginewatch.notify.notifier import Notifier, set_up
from enginewatch.notify.pagerduty import PagerDuty
from enginewatch.notify.slack import SlackWebhook
from enginewatch.notify.webhook import Webhook

ALERTS: Final = 10_000
DEPLOYMENTS: Final = 100
VERDICTS: Final = (
    "stuck_engine",
    "prefill_starvation",
    "preemption_storm",
    "readiness",
    "cuda_oom",
)
GROUPINGS: Final = {"deployment and verdict": "[deployment, verdict]", "each by itself": "['...']"}
CONFIG: Final = """
receivers:
  - name: on-call
    slack_configs: [{{api_url: "http://s"}}]
    pagerduty_configs: [{{routing_key: k}}]
    webhook_configs: [{{url: "http://w"}}]
route: {{receiver: on-call, group_wait: 0s, group_interval: 100ms, group_by: {grouping}}}
"""
KEY: Final = RuleKey("bench.yml", "Bench", ())

WAVES: Final = 40
WAVE_SECONDS: Final = 0.5
SECONDS_A_CALL: Final = {"pagerduty": 0.002, "webhook": 0.1, "slack": 0.0}
"""What each provider takes; Slack refuses everything."""


def fleet(count: int, at: Millis) -> Iterator[Alert]:
    """Alerts as hazards make them, of as many engines as it takes."""
    for number in range(count):
        deployment, verdict = f"d{number % DEPLOYMENTS}", VERDICTS[number // DEPLOYMENTS % 5]
        labels = {
            "alertname": f"Engine{verdict}",
            "verdict": verdict,
            "severity": "page",
            "deployment": deployment,
            "instance": f"gpu-{number}:8000",
            "job": "bench",
            "model": "llama",
            "runtime": "vllm",
        }
        notes = {"summary": f"{deployment}: gpu-{number} is in trouble", "description": "x" * 300}
        yield Alert(Labels(labels), freeze(notes), 1.0, at, at)


class Bench:
    """A notifier with a state file of its own, and no rules: `firing` is what they would have."""

    def __init__(self, folder: Path, grouping: str):
        self.firing: dict[Labels, Alert] = {}
        self.keeper: Final = Keeper(folder / "state.db", wall_clock, self._everything)
        self.calls = dict.fromkeys(SECONDS_A_CALL, 0)
        config = parse_config(CONFIG.format(grouping=GROUPINGS[grouping]), folder / "e.yml")
        setup = set_up(config, self._receivers(), "http://watch:9469")
        self.notifier: Final = Notifier(
            setup, self.keeper, wall_clock, self.firing.values, steady=steady_clock
        )

    def _receivers(self) -> Iterator[Receiver]:
        yield SlackWebhook("on-call/slack[0]", lambda: "http://s", self._client("slack"))
        yield PagerDuty("on-call/pagerduty[0]", "http://p", lambda: "k", self._client("pagerduty"))
        yield Webhook("on-call/webhook[0]", lambda: "http://w", self._client("webhook"))

    def _client(self, name: str) -> httpx.AsyncClient:
        async def answer(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(SECONDS_A_CALL[name])
            self.calls[name] += 1
            return httpx.Response(503 if name == "slack" else 200, text="ok")

        return httpx.AsyncClient(transport=httpx.MockTransport(answer))

    def _snapshot(self) -> Snapshot:
        tracked = {labels: Tracked(alert) for labels, alert in self.firing.items()}
        return Snapshot(wall_clock(), {KEY: tracked})

    def _everything(self) -> tuple[Snapshot, Changes]:
        return self._snapshot(), self.notifier.pipeline.everything()

    async def change(self, alerts: list[Alert]) -> tuple[float, float, float]:
        """As the daemon does after an evaluation; seconds until grouped, and until on the disk,
        and those of the processor."""
        began, used = time.perf_counter(), time.process_time()
        for alert in alerts:
            if alert.resolved_at is None:
                self.firing[alert.labels] = alert
            else:
                self.firing.pop(alert.labels, None)
        self.notifier.take(alerts, wall_clock())
        grouped = time.perf_counter() - began
        self.keeper.put(Changes(), alerts=self._snapshot())
        await self.keeper.commit()
        return grouped, time.perf_counter() - began, time.process_time() - used


@asynccontextmanager
async def bench(grouping: str) -> AsyncIterator[Bench]:
    with TemporaryDirectory() as folder:
        made = Bench(Path(folder), grouping)
        await made.keeper.load()
        yield made
        await made.notifier.drain(0)
        await made.keeper.close()


async def queue(grouping: str, grid: Table) -> None:
    async with bench(grouping) as made:
        firing = list(fleet(ALERTS, wall_clock()))
        ended = [replace(alert, resolved_at=wall_clock()) for alert in firing]
        for what, alerts in (("fire", firing), ("resolve", ended)):
            spent = await made.change(alerts)
            groups = len(list(made.notifier.pipeline.groups()))
            seconds = (f"{each:.2f} s" for each in spent)
            grid.add_row(f"{ALERTS:,} {what}", grouping, f"{groups:,}", *seconds)


class Look(NamedTuple):
    """How it stands after some waves."""

    waves: int
    calls: dict[str, int]
    pending: int
    megabytes: float


async def deliver() -> list[Look]:
    """Waves of 500 incidents that begin and end, with couriers at work."""
    looks: list[Look] = []
    async with bench("deployment and verdict") as made:
        made.notifier.run()
        for wave in range(1, WAVES + 1):
            alerts = list(fleet(DEPLOYMENTS * len(VERDICTS), wall_clock()))
            await made.change(alerts)
            await asyncio.sleep(WAVE_SECONDS)
            await made.change([replace(each, resolved_at=wall_clock()) for each in alerts])
            await asyncio.sleep(WAVE_SECONDS)
            made.notifier.tick(wall_clock())
            if wave in (WAVES // 4, WAVES // 2, WAVES):
                pending = sum(each.pending for each in made.notifier.tally.standings.values())
                megabytes = psutil.Process().memory_info().rss / 2**20
                looks.append(Look(wave, dict(made.calls), pending, megabytes))
    return looks


def main() -> None:
    logging.disable()
    collect_garbage_seldom()
    grid = Table(title="From an evaluation to what is to be told, 3 receivers")
    for heading in ("alerts", "grouped by", "groups", "grouped", "on the disk", "CPU"):
        grid.add_column(heading, justify="right")
    for grouping in GROUPINGS:
        asyncio.run(queue(grouping, grid))
    Console().print(grid)
    table = Table(title=f"500 incidents begin and end a second, {WAVES} times")
    for heading in ("waves", *(f"{name} calls" for name in SECONDS_A_CALL), "pending", "RSS"):
        table.add_column(heading, justify="right")
    for look in asyncio.run(deliver()):
        calls = (f"{look.calls[name]:,}" for name in SECONDS_A_CALL)
        table.add_row(str(look.waves), *calls, f"{look.pending:,}", f"{look.megabytes:.0f} MiB")
    Console().print(table)


if __name__ == "__main__":
    main()
