"""The canary's own cost: judging an answer, and scoring one of each kind; microseconds.

Of processor time, but for code, which runs in a process of its own.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table

from enginewatch.canary.baseline import Answer, Baseline, Known
from enginewatch.canary.decision import shipped_decision
from enginewatch.canary.panel import Panel
from enginewatch.canary.score import score
from enginewatch.canary.sequential import Watch
from enginewatch.canary.task import Kind, Task
from enginewatch.canary.tasks import make_tasks, read_families

ANSWERS = 20_000
FAMILIES = 5


def main() -> None:
    table = Table(title="The canary, one core")
    table.add_column("what")
    table.add_column("µs an answer", justify="right")
    for what, cost in measured():
        table.add_row(what, f"{cost:,.1f}")
    Console().print(table)


def measured() -> Iterator[tuple[str, float]]:
    decision = shipped_decision()
    watch = Watch(decision, tolerance=0.003, gain=0.0, alpha=2e-5)
    yield "one test, its bets", each(lambda n: watch.take(float(n % 997 == 0)))
    panel, known = _panel()
    rng = random.Random(1)
    drawn = [rng.choice(known) for _ in range(ANSWERS)]
    answers = {one.task.id: one.answers[0] for one in known}
    yield (
        f"all tests: three of {FAMILIES} families and of all, and what it looks like",
        each(lambda n: panel.take(drawn[n].task.id, answers[drawn[n].task.id])),
    )
    yield "samples of all tests (once a batch)", each(lambda _: list(panel.samples()), 500)
    for task in {task.kind: task for task in make_tasks(read_families(), "1", 60)}.values():
        said = task.answer if isinstance(task.answer, str) else json.dumps(task.answer)
        if task.kind is Kind.CODE:
            said = f"def {task.function}(*given):\n    return None"
        count = 10 if task.kind is Kind.CODE else 2_000
        clock = time.perf_counter if task.kind is Kind.CODE else time.process_time
        cost = each(lambda _, task=task, said=said: score(task, said), count, clock)
        yield f"score: {task.kind}", cost


def each(
    work: Callable[[int], object],
    count: int = ANSWERS,
    clock: Callable[[], float] = time.process_time,
) -> float:
    began = clock()
    for number in range(count):
        work(number)
    return (clock() - began) / count * 1e6


def _panel() -> tuple[Panel, list[Known]]:
    known = [
        Known(
            Task(f"{family}-{n}", f"family-{family}", f"{family} {n}?", Kind.NUMBER, str(n)),
            tuple(Answer(f"The answer is {n}.", passed=True, logprob=-0.01) for _ in range(3)),
        )
        for family in range(FAMILIES)
        for n in range(100)
    ]
    return Panel(Baseline(tuple(known)), shipped_decision()), known


if __name__ == "__main__":
    main()
