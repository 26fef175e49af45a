"""How many answers until the page: recorded answers through the canary's own sequential tests.

    PYTHONPATH=chaos python -m chaos.fp4.replay tests/data/fp4-ladder.jsonl.xz

Questions are drawn at random with replacement, as the canary does in production, and the answer is
the one that the real engine gave: any number of lives can be replayed from one recording.
"""

from __future__ import annotations

import argparse
import math
import random
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from chaos.fp4.arithmetic import ANSWER, FAMILIES
from chaos.fp4.ladder import TRUSTED, UNSURE
from chaos.fp4.recording import Recording, Round, read

from enginewatch.canary.baseline import Answer, Baseline, Known
from enginewatch.canary.calibrate import clipped, tolerances
from enginewatch.canary.decision import shipped_decision
from enginewatch.canary.panel import Panel
from enginewatch.canary.power import Draw, Fleet, Needed, Setting, flips, needed, shifted
from enginewatch.canary.task import task_of

REPETITIONS = 3
"""Rounds of a healthy model that make the baseline; its other rounds are what is judged."""
_PLANNED = 200  # simulated deployments, as the command simulates them
_MOST = 20_000
WAYS = {"pass rate": frozenset({"pass", "steady"}), "log-prob": frozenset({"logprob"})}


@dataclass(frozen=True, slots=True)
class Life:
    """One deployment, replayed: after how many answers each way of judging paged, if it did."""

    answers: int
    paged: dict[str, int]


@dataclass(frozen=True, slots=True)
class Summary:
    """One rung: pass rates by family and log-probabilities of a token, and its lives."""

    rung: str
    variant: str
    rates: dict[str, float]
    logprob: float
    lives: list[Life]
    planned: dict[str, Needed]

    def paged(self, way: str) -> Needed:
        """Answers until the page in half of the lives, and in nine of ten."""
        limit = max(life.answers for life in self.lives)
        when = [life.paged.get(way, limit + 1) for life in self.lives]
        return needed(np.array(when), limit)

    @property
    def silent(self) -> bool:
        """No life had a page."""
        return not any(life.paged for life in self.lives)


class Replay:
    """A recording, and the baseline that a healthy rung's first rounds make."""

    def __init__(self, recording: Recording, trusted: str = TRUSTED):
        self._recording = recording
        self._trusted = trusted
        self._places = {question.id: place for place, question in enumerate(recording.questions)}
        rounds = recording.of(trusted)[:REPETITIONS]
        self.baseline = Baseline(
            tuple(
                Known(
                    task_of(question.to_json(), question.id),
                    tuple(self._answer(round_, place) for round_ in rounds),
                )
                for place, question in enumerate(recording.questions)
            )
        )

        # Tolerances of thousands of tasks take a while: lives begin as copies of one panel.
        self._panel = Panel(self.baseline, shipped_decision())
        self._shared = (self.baseline, shipped_decision(), *self.baseline.known)

    def _answer(self, round_: Round, place: int) -> Answer:
        text = round_.wrong.get(place)
        right = self._recording.questions[place].right[:-1]
        return Answer(right if text is None else text, text is None, round_.logprob[place])

    def judged(self, rung: str) -> list[Round]:
        """The rounds of a rung that are no part of the baseline."""
        return self._recording.of(rung)[REPETITIONS if rung == self._trusted else 0 :]

    def planned(self, rung: str) -> dict[str, Needed]:
        """What `enginewatch canary plan` computes for the loss that this rung has; for
        log-probabilities, for a fall of all answers or for one of few, whichever takes longer."""
        decision = shipped_decision()
        found = tolerances(self.baseline.known, decision)
        if found.steady is None or found.logprob is None:
            raise ValueError("the baseline has no task that always passed, or no log-probabilities")
        rounds = self.judged(rung)
        lost = fmean(
            (known.rate or 0.0) - passed
            for each in rounds
            for known, passed in zip(self.baseline.known, each.passed, strict=True)
        )
        fell = fmean(
            clipped((fmean(known.logprobs) - each.logprob[place]) / found.scale)
            for each in rounds
            for place, known in enumerate(self.baseline.known)
        )
        alpha, budget = decision.alpha, decision.budget
        steady = Setting(found.steady, 0.0, alpha * budget.steady.overall)
        logprob = Setting(found.logprob, 1.0, alpha * budget.logprob.overall)
        everywhere = shifted(fell, 1 / decision.logprob.noise)
        return {
            "pass rate": _needed(steady, flips(max(0.0, lost))),
            "log-prob": max(
                _needed(logprob, everywhere), _needed(logprob, flips(fell)), key=_slowest
            ),
        }

    def life(self, rung: str, *, answers: int, seed: int) -> Life:
        """Judge so many answers, each drawn from any round; ends early when all ways paged."""
        rng = random.Random(seed)  # noqa: S311  nothing secret
        panel = deepcopy(self._panel, {id(each): each for each in self._shared})
        rounds = self.judged(rung)
        paged: dict[str, int] = {}
        count = 0
        while count < answers and len(paged) < len(WAYS):
            count += 1
            task = panel.draw(rng).task.id
            changes = panel.take(task, self._answer(rng.choice(rounds), self._places[task])).changes
            for way, tests in WAYS.items():
                if any(change.began and change.test in tests for change in changes):
                    paged.setdefault(way, count)
        return Life(count, paged)

    def summary(self, rung: str, *, lives: int, answers: int) -> Summary:
        """Rates and log-probabilities of a rung, and so many lives of at most so many answers."""
        rounds = self._recording.of(rung)
        asked = self._recording.questions
        rates = {
            family: fmean(
                place not in each.wrong
                for each in rounds
                for place, question in enumerate(asked)
                if question.family == family
            )
            for family in FAMILIES
        }
        return Summary(
            rung,
            rounds[0].variant,
            rates,
            fmean(value / ANSWER for each in rounds for value in each.logprob),
            [self.life(rung, answers=answers, seed=seed) for seed in range(lives)],
            self.planned(rung),
        )


def _needed(setting: Setting, draw: Draw) -> Needed:
    fleet = Fleet(shipped_decision(), setting, _PLANNED)
    return needed(fleet.run(draw, np.random.default_rng(1), _MOST), _MOST)


def _slowest(found: Needed) -> tuple[float, float]:
    most, half = (math.inf if count is None else count for count in (found.most, found.half))
    return most, half


def _shown(found: Needed) -> str:
    half, most = ("—" if count is None else f"{count:,}" for count in found)
    return f"{half} / {most}"


def table(recording: Recording, *, lives: int = 20, answers: int = 5000) -> str:
    """Markdown: a line a rung, with the answers until the page of half of the lives and of nine in
    ten (— for more than were judged), replayed and as planned."""
    replays = {name: Replay(recording, name) for name in (TRUSTED, UNSURE) if recording.of(name)}
    head = ["rung", "stored as", *FAMILIES, "log-prob of a token"]
    head += [f"{way}, {what}" for way in WAYS for what in ("paged", "planned")]
    rows = [head, ["---"] * len(head)]
    for rung in dict.fromkeys(each.rung for each in recording.rounds):
        found = replays.get(rung, replays[TRUSTED]).summary(rung, lives=lives, answers=answers)
        rates = [f"{found.rates[family]:.4f}" for family in FAMILIES]
        pages = [_shown(each) for way in WAYS for each in (found.paged(way), found.planned[way])]
        rows.append([rung, found.variant, *rates, f"{found.logprob:.2g}", *pages])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Print the table of a recording."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("--lives", type=int, default=20, help="replays of each rung")
    parser.add_argument("--answers", type=int, default=5000, help="at most, in each replay")
    options = parser.parse_args()
    print(table(read(options.recording), lives=options.lives, answers=options.answers))


if __name__ == "__main__":
    main()
