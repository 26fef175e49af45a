"""Which alert fires and resolves in which round: alike in every process that has the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from enginewatch.model import Alert, Labels, Millis, freeze

ROUND: Millis = 20
"""Milliseconds between two rounds."""


class Life(NamedTuple):
    """Rounds in which an alert begins to fire, and resolves."""

    name: str
    begins: int
    ends: int

    def alert(self, began: Millis) -> Alert:
        """The alert, which a group of its own tells of."""
        at = began + self.begins * ROUND
        labels = Labels(
            alertname="Crash", deployment=self.name, verdict="engine_dead", severity="page"
        )
        return Alert(labels, freeze({"summary": f"{self.name} is down"}), 1.0, at, at)

    def ended(self, began: Millis) -> Alert:
        return replace(self.alert(began), resolved_at=began + self.ends * ROUND)


def script(seed: int, alerts: int, rounds: int) -> list[Life]:
    """Lives from one round, so that some are over before they can be told, to a quarter of all."""
    rng = random.Random(seed)
    lives = []
    for number in range(alerts):
        begins = rng.randrange(1, rounds)
        lasts = rng.choice([1, 2, 5, rng.randrange(1, max(2, rounds // 4))])
        lives.append(Life(f"d{number}", begins, begins + lasts))
    return lives


def changes(lives: list[Life], round_: int, began: Millis) -> Iterator[Alert]:
    """What begins or ends in a round."""
    for life in lives:
        if life.begins == round_:
            yield life.alert(began)
        if life.ends == round_:
            yield life.ended(began)
