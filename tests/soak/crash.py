"""500 alerts, a process that is killed again and again, and providers that refuse a third.

Every alert has to reach PagerDuty as exactly one incident with its resolve, and
Slack at least once in each state, where what comes twice says that it may.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.soak.script import Life, script
from tests.support.providers import PagerDuty, Slack, Trouble
from tests.support.server import serve

from enginewatch.notify.text import MAYBE_REPEAT

REPOSITORY = Path(__file__).resolve().parents[2]


class Flaky(deque[Trouble]):
    """Troubles for one call in three: refused, taken and not answered, dropped."""

    KINDS = (
        Trouble(status=503, body="not now"),
        Trouble(status=429, body="too many", headers={"Retry-After": "0"}),
        Trouble(status=500, body="oops", after_taking=True),
        Trouble(drop=True, after_taking=True),
        Trouble(drop=True),
    )

    def __init__(self, seed: int):
        super().__init__()
        self._rng = random.Random(seed)
        self.given = 0

    def __bool__(self) -> bool:
        return self._rng.random() < 1 / 3

    def popleft(self) -> Trouble:
        self.given += 1
        return self._rng.choice(self.KINDS)


@dataclass
class Outcome:
    """What happened, and `wrong`, which should be empty."""

    kills: int = 0
    seconds: float = 0.0
    calls: int = 0
    troubles: int = 0
    incidents: int = 0
    messages: int = 0
    repeats: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.incidents} incidents, {self.kills} kills, {self.calls} calls of which"
            f" {self.troubles} went wrong, {self.messages} messages of which {self.repeats} say"
            f" that they may be repeats; {self.seconds:.0f} s; {len(self.wrong)} wrong"
        )


def crash(folder: Path, *, alerts: int, kills: int, seed: int, limit: float) -> Outcome:
    """Run the script to its end, with at least `kills` SIGKILLs on the way; `limit` in seconds."""
    pagerduty, slack = PagerDuty(), Slack()
    pagerduty.troubles, slack.troubles = Flaky(seed), Flaky(seed + 1)
    # Six rounds or so fit between two kills.
    rounds = kills * 6 + 50
    outcome = Outcome()
    began = time.monotonic()
    with serve(pagerduty.app()) as pagerduty_url, serve(slack.app()) as slack_url:
        config = _config(folder, pagerduty_url, slack_url)
        command = [sys.executable, "-m", "tests.soak.worker", str(folder), str(config)]
        command += [str(seed), str(alerts), str(rounds)]
        rng = random.Random(seed)
        while outcome.kills < kills:
            if not _one_life(command, folder, rng.random()):
                outcome.wrong.append(f"it was done after {outcome.kills} kills")
                break
            outcome.kills += 1
        left = limit - (time.monotonic() - began)
        if not _to_the_end(command, folder, left):
            outcome.wrong.append(f"not done within {limit:g} s: {_tail(folder)}")
    outcome.seconds = time.monotonic() - began
    lives = script(seed, alerts, rounds - 1)
    _judge(outcome, lives, pagerduty, slack)
    return outcome


def _config(folder: Path, pagerduty: str, slack: str) -> Path:
    tree = {
        "receivers": [
            {
                "name": "on-call",
                "pagerduty_configs": [
                    {"routing_key": PagerDuty.KEY, "url": f"{pagerduty}/v2/enqueue"}
                ],
                "slack_configs": [{"api_url": f"{slack}/webhook"}],
            }
        ],
        "route": {"receiver": "on-call", "group_wait": "10ms", "group_interval": "50ms"},
        "storage": {"path": str(folder)},
    }
    path = folder / "enginewatch.yml"
    path.write_text(yaml.safe_dump(tree))
    return path


@contextlib.contextmanager
def _started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'watchdog'}"},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _one_life(command: list[str], folder: Path, luck: float) -> bool:
    """Start, and kill at some moment; False when it ended before, by itself."""
    with _started(command, folder) as process:
        if luck > 0.1:  # else while it starts
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(luck * 0.3)
        process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL


def _to_the_end(command: list[str], folder: Path, limit: float) -> bool:
    with _started(command, folder) as process:
        try:
            process.wait(max(1.0, limit))
        except subprocess.TimeoutExpired:
            return False
        assert process.stdout is not None
        return process.returncode == 0 and process.stdout.read().endswith("done\n")


def _tail(folder: Path) -> str:
    return (folder / "log").read_text()[-2000:]


def _judge(outcome: Outcome, lives: list[Life], pagerduty: PagerDuty, slack: Slack) -> None:
    outcome.calls = len(pagerduty.requests) + len(slack.requests)
    for provider in (pagerduty, slack):
        assert isinstance(provider.troubles, Flaky)
        outcome.troubles += provider.troubles.given
    _judge_incidents(outcome, lives, pagerduty)
    _judge_messages(outcome, lives, slack)


def _judge_incidents(outcome: Outcome, lives: list[Life], pagerduty: PagerDuty) -> None:
    outcome.incidents = len(pagerduty.incidents)
    found: Counter[str] = Counter()
    for incident in pagerduty.incidents:
        name = incident.events[0]["payload"]["group"]
        found[name] += 1
        if incident.open:
            outcome.wrong.append(f"PagerDuty: the incident of {name} was never resolved")
    for life in lives:
        if found[life.name] != 1:
            outcome.wrong.append(f"PagerDuty: {found[life.name]} incidents of {life.name}")


def _judge_messages(outcome: Outcome, lives: list[Life], slack: Slack) -> None:
    told: Counter[tuple[str, str]] = Counter()
    for message in slack.messages.values():
        outcome.messages += 1
        text = json.dumps(message)
        name, state = _subject(message)
        told[name, state] += 1
        doubt = MAYBE_REPEAT in text
        outcome.repeats += doubt
        if told[name, state] > 1 and not doubt:
            outcome.wrong.append(f"Slack: {name} {state} came again and did not say so")
    for life in lives:
        for state in ("firing", "resolved"):
            if not told[life.name, state]:
                outcome.wrong.append(f"Slack: never heard that {life.name} is {state}")


def _subject(message: dict[str, Any]) -> tuple[str, str]:
    """Which alert a message is about, and what it says of it."""
    found = re.match(r"(FIRING|RESOLVED): (d\d+) is down", message["text"])
    assert found is not None, message["text"]
    return found.group(2), found.group(1).lower()
