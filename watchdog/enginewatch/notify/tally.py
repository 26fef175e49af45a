"""How each receiver does: what it took and refused, and for how long it has been owed something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from enginewatch.model import Millis
from enginewatch.notify.group import Group
from enginewatch.notify.message import DeliveryError, FailureReason


class Standing(NamedTuple):
    """One receiver, in notifications.

    `failed` are those given up as they were, `attempts_failed` single attempts, by
    reason. `pending` groups have something that it has not been told, of which the
    oldest has been tried for `owed_for`. `delivered_at` is 0 before the first.
    """

    delivered: int = 0
    failed: Mapping[FailureReason, int] = dict.fromkeys(FailureReason, 0)
    attempts_failed: Mapping[FailureReason, int] = dict.fromkeys(FailureReason, 0)
    pending: int = 0
    owed_for: Millis = 0
    delivered_at: Millis = 0


class Tally:
    """Counts; `standings` is as of the last `look`, and may be read in any thread."""

    def __init__(self) -> None:
        self._delivered: Final[Counter[str]] = Counter()
        self._delivered_at: Final[dict[str, Millis]] = {}
        self._failed: Final[dict[str, Counter[FailureReason]]] = {}
        self._attempts: Final[dict[str, Counter[FailureReason]]] = {}
        self.standings: Mapping[str, Standing] = {}

    def delivered(self, receiver: str, now: Millis) -> None:
        self._delivered[receiver] += 1
        self._delivered_at[receiver] = now

    def failed(self, receiver: str, failure: DeliveryError) -> None:
        self._attempts.setdefault(receiver, Counter())[failure.reason] += 1
        if not failure.retryable:
            self._failed.setdefault(receiver, Counter())[failure.reason] += 1

    def given_up(self, receiver: str) -> None:
        self._failed.setdefault(receiver, Counter())[FailureReason.EXPIRED] += 1

    def look(self, receivers: Iterable[str], groups: Iterable[Group], now: Millis) -> None:
        """Brings `standings` up to date."""
        pending: Counter[str] = Counter()
        owed: dict[str, Millis] = {}
        for group in groups:
            for name, lane in group.lanes.items():
                if lane.attempts or lane.news_at is not None:
                    pending[name] += 1
                if lane.attempts and lane.owed_since is not None:
                    owed[name] = min(owed.get(name, now), lane.owed_since)
        self.standings = {
            name: Standing(
                self._delivered[name],
                _by_reason(self._failed.get(name)),
                _by_reason(self._attempts.get(name)),
                pending[name],
                max(0, now - owed.get(name, now)),
                self._delivered_at.get(name, 0),
            )
            for name in receivers
        }


def _by_reason(counts: Counter[FailureReason] | None) -> Mapping[FailureReason, int]:
    """Zeros too: what is counted from its first time on has never increased."""
    return {reason: counts[reason] if counts else 0 for reason in FailureReason}
