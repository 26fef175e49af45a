"""All that takes part in a test, and whether it is in a steady state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from enginechaos.budgets import Budgets
from enginechaos.errors import Aborted, NotSteady, WatchdogError
from enginechaos.journal import Record
from enginechaos.load import Load
from enginechaos.observer import Observer
from enginechaos.receivers import Receivers
from enginechaos.target import Target
from enginechaos.undo import UndoLog
from enginechaos.watchdog import Watchdog

T = TypeVar("T")

PAUSE = 0.1
"""Seconds between two looks of a test that waits."""

LOOK_BACK = 5.0
"""Seconds of the clients' figures that a steady state is judged by."""


@dataclass
class Scene:
    """`run_ends_at` is the run's hard cap, in Unix seconds."""

    target: Target
    watchdog: Watchdog
    receivers: Receivers
    observer: Observer
    load: Load
    undo: UndoLog
    budgets: Budgets
    record: Record
    run_ends_at: float = float("inf")
    steady_within: float = 90.0
    aborted: str | None = field(default=None, init=False)

    def standing(self) -> frozenset[Any]:
        """Alerts that are no pages, and so no obstacle: a ticket of last week."""
        return frozenset(
            a.key for a in self.observer.active() if a.labels.get("severity") != "page"
        )

    def unsteady(self) -> list[str]:
        """What keeps this from being a steady state; nothing when it is one."""
        if self.observer.failure is not None:
            return [self.observer.failure]
        pages = [a for a in self.observer.active() if a.labels.get("severity") == "page"]
        return [
            *(f"{alert.name} is {alert.state}" for alert in pages),
            *_scraped(self.watchdog, self.target),
            *self._clients(),
        ]

    def _clients(self) -> list[str]:
        if not self.load.mix.clients:
            return _answers(self.target, self.load)
        if time.time() - self.load.started_at < LOOK_BACK:
            return ["the load has just begun"]
        figures = self.load.figures(LOOK_BACK)
        if figures.failed:
            return [f"requests fail: {figures.last_error}"]
        if not figures.tokens:
            return [f"no token came in {LOOK_BACK:g} s"]
        return []

    def settle_down(self, when: str) -> None:
        """Wait for a steady state. Raises NotSteady with what is wrong."""
        wrong = ["nothing was seen yet"]

        def steady() -> bool:
            wrong[:] = self.unsteady()
            return not wrong

        if not self.wait(steady, self.steady_within):
            raise NotSteady(
                f"no steady state {when} within {self.steady_within:g} s: {'; '.join(wrong)}",
                where=self.target.name,
                hint="" if when == "after the undo" else "nothing was injected",
            )

    def wait_for_series(self, series: str, within: float) -> None:
        """Wait until the watchdog has a value of `series`. Raises NotSteady."""

        def known() -> bool:
            return self.watchdog.value(series) is not None

        if not self.wait(known, within):
            raise NotSteady(
                f"the watchdog has no {series} after {within:g} s",
                where=self.target.name,
                hint="is there load on the target?",
            )

    def wait(self, until: Callable[[], T], within: float) -> T | None:
        """The first true answer of `until`; None when there is none in time. Raises Aborted."""
        deadline = time.monotonic() + within
        while True:
            self.check()
            answer = until()
            if answer:
                return answer
            if time.monotonic() >= deadline:
                return None
            time.sleep(PAUSE)

    def check(self) -> None:
        """Raises Aborted when a limit has been reached."""
        if self.aborted is None and time.time() > self.run_ends_at:
            self.aborted = "the run has reached its limit of time"
        if self.aborted is not None:
            raise Aborted(self.aborted, where=self.target.name)


def _scraped(watchdog: Watchdog, target: Target) -> list[str]:
    try:
        targets = watchdog.targets()
    except WatchdogError as failure:
        return [str(failure)]
    ours = [t for t in targets if t["labels"].get("deployment") == target.deployment]
    if not ours:
        return [f"the watchdog has no target of deployment {target.deployment}"]
    return [
        f"the watchdog sees {t['labels'].get('instance')} {t['health']} {t.get('lastError', '')}"
        for t in ours
        if t["health"] != "up"
    ]


def _answers(target: Target, load: Load) -> list[str]:
    """Without clients of ours, one request for one token stands for the users."""
    body = {"model": target.model, "prompt": "Hi", "max_tokens": 1}
    try:
        answer = httpx.post(
            f"{target.url}/v1/completions",
            json=body,
            headers=dict(load.headers),
            timeout=10,
            trust_env=False,
        )
        answer.raise_for_status()
    except httpx.HTTPError as failure:
        return [f"a request for one token fails: {failure or type(failure).__name__}"]
    return []
