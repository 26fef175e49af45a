"""Answers of served models, kept so that statistics can be replayed without an engine.

JSON lines, compressed: the questions once, then one line a round (all questions asked once of one
model under one load): which answers were wrong and what they said, and the log-probability
of the right answer (nats, all tokens together), question by question.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.fp4.tasks import Question


@dataclass(frozen=True, slots=True)
class Round:
    """Every question asked once. `wrong` is by place in the questions: the text of the answer."""

    rung: str
    model: str
    variant: str
    load: str
    wrong: dict[int, str]
    logprob: list[float]

    @property
    def passed(self) -> list[bool]:
        """By question."""
        return [place not in self.wrong for place in range(len(self.logprob))]

    def to_json(self) -> dict[str, Any]:
        return {
            "rung": self.rung,
            "model": self.model,
            "variant": self.variant,
            "load": self.load,
            "wrong": self.wrong,
            "logprob": [float(f"{value:.5g}") for value in self.logprob],
        }


@dataclass(frozen=True, slots=True)
class Recording:
    """The questions and all rounds, in the order in which they were asked."""

    questions: list[Question]
    rounds: list[Round] = field(default_factory=list)

    def of(self, rung: str) -> list[Round]:
        """The rounds of one rung of the ladder."""
        return [each for each in self.rounds if each.rung == rung]


def write(path: Path, recording: Recording) -> None:
    """Write all of it, .xz."""
    head = [[each.id, each.family, each.prompt, each.right] for each in recording.questions]
    objects: Iterable[Any] = [{"questions": head}, *(each.to_json() for each in recording.rounds)]
    with lzma.open(path, "wt", encoding="utf-8", preset=9) as file:
        for value in objects:
            file.write(json.dumps(value, separators=(",", ":")) + "\n")


def read(path: Path) -> Recording:
    """What `write` wrote."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        head, *rest = map(json.loads, file)
    rounds = [
        Round(**{**value, "wrong": {int(k): v for k, v in value["wrong"].items()}})
        for value in rest
    ]
    return Recording([Question(*each) for each in head["questions"]], rounds)
