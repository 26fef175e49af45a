"""Verdicts of `enginewatch canary compare`: once over all tasks, or answer by answer."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer

from enginewatch.canary.baseline import Answer, Baseline, Known, is_baseline, outcome, read_baseline
from enginewatch.canary.decision import shipped_decision
from enginewatch.canary.evaluation import Evaluation, Outcome, compare, rates_of
from enginewatch.canary.lmeval import read_evaluation
from enginewatch.canary.look import Look, look
from enginewatch.canary.panel import Panel
from enginewatch.canary.shown import shown
from enginewatch.cli.canary_reach import Reach, progress, reached
from enginewatch.cli.output import FOUND
from enginewatch.cli.preflight import Format
from enginewatch.collect.canary_ask import Asker, Unanswered, ask_all
from enginewatch.errors import EnginewatchError
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.judge import shipped_preflight
from enginewatch.preflight.outcome import required
from enginewatch.preflight.report import FORMATS
from enginewatch.preflight.run import preflight as judge
from enginewatch.units import plural

UNDETERMINED: Final = 3
_EXAMPLES: Final = 5


def gate_evaluations(baseline: Path, candidate: Path, form: Format) -> int:
    """Compare two finished evaluations, and report; the exit code."""
    return _gate(_evaluation(baseline), _evaluation(candidate), (), form)


def gate_answers(
    baseline: Baseline, answers: Sequence[Answer | Unanswered], source: str, form: Format
) -> int:
    """The same of answers to each of a baseline's tasks, in their order."""
    pairs = list(zip(baseline.known, answers, strict=True))
    outcomes = tuple(
        outcome(known.task, answer)
        for known, answer in pairs
        if isinstance(answer, Answer) and answer.passed is not None
    )
    if not outcomes:
        first = next(each for each in answers if isinstance(each, Unanswered))
        hint = f"{first.result}: {first.problem}"
        raise EnginewatchError("no task was answered", where=source, hint=hint)
    seen = look(baseline, map(_told, pairs), shipped_decision(), source)
    candidate = Evaluation(source, rates_of(outcomes), outcomes)
    return _gate(baseline.evaluation(), candidate, (seen,), form)


def _told(pair: tuple[Known, Answer | Unanswered]) -> tuple[Known, Answer | str]:
    known, answer = pair
    return known, answer if isinstance(answer, Answer) else f"{answer.result}: {answer.problem}"


def _evaluation(path: Path) -> Evaluation:
    return read_baseline(path).evaluation() if is_baseline(path) else read_evaluation(path)


def _gate(
    baseline: Evaluation, candidate: Evaluation, looks: tuple[Look, ...], form: Format
) -> int:
    checks = ["quality", "canary"] if looks else ["quality"]
    rules = shipped_preflight().only(checks)
    facts = Facts(evaluations=(candidate,), baselines=(baseline,), canaries=looks)
    wanted = required(checks, rules)
    today = datetime.now(UTC).date()
    inputs = (f"baseline {baseline.source}", f"candidate {candidate.source}")
    report = judge(facts, rules, today, wanted=wanted, inputs=inputs)
    compared = compare(baseline, candidate)
    lost = compared[-1].lost if compared else ()
    text = FORMATS[form](report)
    if form is Format.JSON:
        examples = [_example(*pair) for pair in lost[:_EXAMPLES]]
        text = json.dumps({**json.loads(text), "examples": examples}, indent=2)
    typer.echo(text)
    if form is Format.TABLE:
        for line in _side_by_side(lost):
            typer.echo(line)
    return report.outcome.code


def _example(before: Outcome, after: Outcome) -> dict[str, str]:
    return {
        "family": before.family,
        "task": before.task,
        "expected": before.expected,
        "baseline": before.answer,
        "candidate": after.answer,
    }


def _side_by_side(lost: Sequence[tuple[Outcome, Outcome]]) -> Iterator[str]:
    if lost:
        yield f"\n{plural(len(lost), 'task')} lost; the first of them:"
    for before, after in lost[:_EXAMPLES]:
        yield f"  {shown(before.task)}"
        yield f"    expected   {shown(before.expected)}"
        yield f"    baseline   {shown(before.answer)}"
        yield f"    candidate  {shown(after.answer)}"


@dataclass
class _Watched:
    """What a run of single answers came to."""

    panel: Panel
    answers: int = 0
    unanswered: int = 0
    problem: str = ""
    alarms: list[dict[str, Any]] = field(default_factory=list)
    examples: list[tuple[Outcome, Outcome]] = field(default_factory=list)

    def take(self, known: Known, answer: Answer | Unanswered) -> None:
        if isinstance(answer, Unanswered):
            self.unanswered += 1
            self.problem = self.problem or f"{answer.result}: {answer.problem}"
            return
        self.answers += 1
        taken = self.panel.take(known.task.id, answer)
        worse = answer.passed is False and known.rate == 1.0
        if (worse or taken.faults) and len(self.examples) < _EXAMPLES:
            trusted = outcome(known.task, known.answers[0])
            self.examples.append((trusted, outcome(known.task, answer)))
        for change in taken.changes:
            if change.began:
                self._alarm(change.test, change.family)
        if self.panel.degenerate >= 1 and not any(a["test"] == "degenerate" for a in self.alarms):
            self._alarm("degenerate", "overall")

    def _alarm(self, test: str, family: str) -> None:
        self.alarms.append({"test": test, "family": family, "answers": self.answers})

    def to_json(self) -> dict[str, Any]:
        return {
            "answers": self.answers,
            "unanswered": self.unanswered,
            "alarms": self.alarms,
            "degenerate": self.panel.kinds(),
            "tests": [
                {
                    "test": test,
                    "family": family,
                    "evidence": round(watch.evidence, 6),
                    "drop": watch.drop,
                    "tolerance": watch.tolerance,
                    "answers": watch.answers,
                }
                for test, family, watch in self.panel.watches()
            ],
            "examples": [_example(*pair) for pair in self.examples],
        }


async def watch(
    baseline: Baseline,
    reach: Reach,
    answers: int,
    accepted: float,
    rng: random.Random,
    form: Format,
) -> int:
    """Draw tasks at random until an alarm, or so many answers; report, and the exit code."""
    watched = _Watched(Panel(baseline, shipped_decision(), accepted))

    async def work(asker: Asker) -> None:
        with progress("asked", answers) as tell:
            asked = 0
            while asked < answers and not watched.alarms:
                batch = min(answers - asked, 4 * reach.concurrency)
                drawn = [watched.panel.draw(rng) for _ in range(batch)]
                asked += batch
                found = await ask_all(asker, [each.task for each in drawn], reach.concurrency, tell)
                for known, answer in zip(drawn, found, strict=True):
                    if not watched.alarms:
                        watched.take(known, answer)
                if all(isinstance(each, Unanswered) for each in found):
                    break

    await reached(reach, work)
    told = watched.to_json()
    if form is Format.JSON:
        typer.echo(json.dumps(told, indent=2))
    else:
        for line in _report(told, watched):
            typer.echo(line)
    if watched.alarms:
        return FOUND
    return UNDETERMINED if watched.unanswered or not watched.answers else 0


def _report(told: Mapping[str, Any], watched: _Watched) -> Iterator[str]:
    yield f"{plural(watched.answers, 'answer')}, {len(watched.alarms) or 'no'} alarms"
    if watched.unanswered:
        yield f"{watched.unanswered} without an answer; the first: {watched.problem}"
    for alarm in watched.alarms:
        yield f"ALARM after {plural(alarm['answers'], 'answer')}: {alarm['test']} {alarm['family']}"
    yield f"{'test':10} {'family':16} {'evidence':>8} {'drop':>8} {'tolerated':>9}"
    for each in told["tests"]:
        drop = "" if each["drop"] is None else f"{each['drop']:.3f}"
        yield (
            f"{each['test']:10} {each['family'][:16]:16} {each['evidence']:8.2f} {drop:>8}"
            f" {each['tolerance']:9.3f}"
        )
    yield from _side_by_side(watched.examples)
