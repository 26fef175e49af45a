"""What receivers took, in one shape whatever the receiver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Delivery:
    """A notification that a receiver answered with yes. `at` is Unix time in seconds.

    `key` is what this receiver tells incidents apart by: the webhook's groupKey, PagerDuty's
    dedup_key, the `ts` of Slack's message. `alerts` are those that it tells of as firing, by
    fingerprint or title.
    """

    at: float
    receiver: str
    key: str
    firing: bool
    verdict: str
    deployment: str
    severity: str
    headline: str = ""
    """What a person reads first: the alerts' names, or the provider's own line."""
    alerts: frozenset[str] = frozenset()
    body: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "receiver": self.receiver,
            "key": self.key,
            "status": "firing" if self.firing else "resolved",
            "verdict": self.verdict,
            "deployment": self.deployment,
            "severity": self.severity,
            "headline": self.headline,
        }


class Inbox:
    """Of all receivers together; written by their servers' threads."""

    def __init__(self) -> None:
        self._changed: Final = threading.Condition()
        self._taken: Final[list[Delivery]] = []
        self._refused: Final[list[tuple[float, str, str]]] = []

    def take(self, delivery: Delivery) -> None:
        with self._changed:
            self._taken.append(delivery)
            self._changed.notify_all()

    def refuse(self, at: float, receiver: str, reason: str) -> None:
        """Of what a receiver turned away because it broke the provider's contract."""
        with self._changed:
            self._refused.append((at, receiver, reason))

    def taken(self, since: float = 0.0) -> list[Delivery]:
        with self._changed:
            return [each for each in self._taken if each.at >= since]

    def refused(self, since: float = 0.0) -> list[str]:
        with self._changed:
            return [f"{who}: {why}" for at, who, why in self._refused if at >= since]

    def first(self, wanted: Callable[[Delivery], bool], since: float = 0.0) -> Delivery | None:
        return next((each for each in self.taken(since) if wanted(each)), None)
