"""The notifications' side of the daemon in a process of its own, to be killed at any moment.

It is the daemon without scrapes and rules: the same keeper, notifier and
receivers, and the same order of steps for a round as in `daemon.py`. Instead of a
judge there is a script, and the round that was saved last says where to go on.

    python -m tests.soak.worker FOLDER CONFIG SEED ALERTS ROUNDS
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rich.console import Console
from tenacity.wait import wait_exponential_jitter
from tests.soak.script import ROUND, Life, changes, script

from enginewatch.alerting.snapshot import RuleKey, Snapshot
from enginewatch.alerting.state import Tracked
from enginewatch.collect.scrape import steady_clock, wall_clock
from enginewatch.config import load_config
from enginewatch.keeper import Keeper
from enginewatch.model import Alert, Millis
from enginewatch.notify import throttle
from enginewatch.notify.ledger import Changes
from enginewatch.notify.notifier import Notifier
from enginewatch.notify.slack import SlackWebhook
from enginewatch.wiring import notifications

KEY = RuleKey("soak", "Crash", ())

# Real waits would make a run of minutes one of hours.
throttle.SOON = wait_exponential_jitter(initial=0.05, max=0.5, jitter=0.05)  # type: ignore[misc]
SlackWebhook.pace = 0


class Worker:
    def __init__(self, folder: Path, config: Path, lives: list[Life], rounds: int):
        self.lives = lives
        self.rounds = rounds
        self.done = 0
        self.began: Millis = 0
        self.keeper = Keeper(folder / "state.db", wall_clock, self.everything)
        setup = notifications(load_config(config), Console())
        self.notifier = Notifier(setup, self.keeper, wall_clock, self.firing, steady=steady_clock)

    def firing(self) -> list[Alert]:
        now = self.done
        return [life.alert(self.began) for life in self.lives if life.begins <= now < life.ends]

    def snapshot(self) -> Snapshot:
        """The rounds done are the time of the snapshot; the first alert tells when they began."""
        alerts = {alert.labels: Tracked(alert) for alert in self.firing()}
        mark = Alert(KEY_LABELS, {}, 0.0, self.began)
        return Snapshot(self.done, {KEY: {**alerts, KEY_LABELS: Tracked(mark)}})

    def everything(self) -> tuple[Snapshot, Changes]:
        return self.snapshot(), self.notifier.pipeline.everything()

    async def run(self) -> None:
        loaded = await self.keeper.load()
        self.began = wall_clock()
        if loaded.alerts is not None:
            self.done = loaded.alerts.saved_at
            self.began = loaded.alerts.alerts[KEY][KEY_LABELS].alert.active_at
        self.notifier.restore(loaded.saved, loaded.entries, wall_clock())
        self.notifier.run()
        print(f"ready at round {self.done}", flush=True)
        while self.done < self.rounds:
            await asyncio.sleep(ROUND / 1000)
            await self.round()
        while list(self.notifier.pipeline.groups()):
            self.notifier.tick(wall_clock())
            await asyncio.sleep(0.05)
        await self.notifier.drain(5)
        await self.keeper.close()
        print("done", flush=True)

    async def round(self) -> None:
        now = wall_clock()
        self.done += 1
        self.notifier.take(changes(self.lives, self.done, self.began), now)
        self.keeper.put(Changes(), alerts=self.snapshot())
        await self.keeper.commit()
        self.notifier.tick(now)


KEY_LABELS = Life("began", 0, 0).alert(0).labels


def main() -> None:
    folder, config, seed, alerts, rounds = sys.argv[1:]
    lives = script(int(seed), int(alerts), int(rounds) - 1)
    worker = Worker(Path(folder), Path(config), lives, int(rounds) + int(rounds) // 3)
    asyncio.run(worker.run())


if __name__ == "__main__":
    main()
