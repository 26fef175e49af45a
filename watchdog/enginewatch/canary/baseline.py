"""The trusted deployment's answers, in a file: what others are compared with.

JSON lines. The first tells of the deployment, each other of one task:

```
{"enginewatch_canary_baseline": 1, "model": "...", "engine": "vllm", "version": "0.32.0",
 "format": "bf16", "chat": false, "created": "2026-03-01T10:00:00.000Z"}
{"task": {... as in a file of tasks ...}, "answers": [{"text": "579", "passed": true,
 "logprob": -0.0002, "faults": []}]}
```

`passed` is null where the answer could not be scored; `logprob` is that of the task's target
(nats, all its tokens together), and left out where the engine does not tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from enginewatch.canary.degenerate import Fault
from enginewatch.canary.errors import CanaryError
from enginewatch.canary.evaluation import Evaluation, Outcome, rates_of
from enginewatch.canary.files import json_value, lines
from enginewatch.canary.task import Task, task_of, unique

_KEY: Final = "enginewatch_canary_baseline"
VERSION: Final = 1
SHOWN: Final = 2_000
"""Characters that are kept of an answer."""
_ABOUT: Final = ("model", "engine", "version", "format", "created", "url")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, scored. `passed` is None where this machine could not tell."""

    text: str
    passed: bool | None
    logprob: float | None = None
    faults: frozenset[Fault] = frozenset()

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"text": self.text[:SHOWN], "passed": self.passed}
        if self.logprob is not None:
            told["logprob"] = self.logprob
        if self.faults:
            told["faults"] = sorted(self.faults)
        return told


@dataclass(frozen=True, slots=True)
class Known:
    """A task, and the baseline's answers to it; at least one."""

    task: Task
    answers: tuple[Answer, ...]

    @property
    def grades(self) -> tuple[bool, ...]:
        return tuple(each.passed for each in self.answers if each.passed is not None)

    @property
    def rate(self) -> float | None:
        """The pass rate on this task; None where no answer could be scored."""
        grades = self.grades
        return sum(grades) / len(grades) if grades else None

    @property
    def logprobs(self) -> tuple[float, ...]:
        return tuple(each.logprob for each in self.answers if each.logprob is not None)


@dataclass(frozen=True, slots=True)
class Baseline:
    """All tasks of one deployment. `chat` says how it was asked, and so must be others."""

    known: tuple[Known, ...]
    chat: bool = False
    about: Mapping[str, str] = field(default_factory=dict)
    source: str = "baseline"

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(sorted({each.task.family for each in self.known}))

    def evaluation(self) -> Evaluation:
        """The same as a finished evaluation."""
        outcomes = tuple(
            outcome(each.task, answer)
            for each in self.known
            for answer in each.answers
            if answer.passed is not None
        )
        return Evaluation(self.source, rates_of(outcomes), outcomes, self.about)


def outcome(task: Task, answer: Answer) -> Outcome:
    """An answer that was scored, as evaluations have it."""
    expected = task.answer if isinstance(task.answer, str) else json.dumps(task.answer)
    return Outcome(
        task.family, task.id, float(answer.passed or 0), answer.text[:SHOWN], expected or ""
    )


def write_baseline(baseline: Baseline) -> Iterator[str]:
    """The lines of its file."""
    yield json.dumps({_KEY: VERSION, **baseline.about, "chat": baseline.chat}, ensure_ascii=False)
    for each in baseline.known:
        answers = [answer.to_json() for answer in each.answers]
        yield json.dumps({"task": each.task.to_json(), "answers": answers}, ensure_ascii=False)


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file. Raises CanaryError naming line and key."""
    rows = lines(path)
    where, first = next(rows, (str(path), "{}"))
    head = json_value(first, where)
    if not isinstance(head, Mapping) or _KEY not in head:
        hint = "made by `enginewatch canary baseline`"
        raise CanaryError("not a baseline", where=str(path), hint=hint)
    if head[_KEY] != VERSION:
        raise CanaryError(f"of version {head[_KEY]!r}", where=where, hint=f"{VERSION} is known")
    known = tuple(_known(json_value(text, where), where) for where, text in rows)
    if not known:
        raise CanaryError("no tasks in it", where=str(path))
    unique(tuple(each.task for each in known), str(path))
    about = {key: str(head[key])[:200] for key in _ABOUT if head.get(key)}
    return Baseline(known, head.get("chat") is True, about, str(path))


def is_baseline(path: Path) -> bool:
    """Whether the file says that it is one. Raises CanaryError where it can't be read."""
    if path.is_dir():
        return False
    _, first = next(lines(path), ("", ""))
    return f'"{_KEY}"' in first[:1000]


def _known(row: Any, where: str) -> Known:
    if not isinstance(row, Mapping) or not isinstance(row.get("answers"), list):
        raise CanaryError("not a task with answers", where=where, hint="task and answers")
    answers = tuple(_answer(each, where) for each in row["answers"])
    if not answers:
        raise CanaryError("no answers", where=where)
    return Known(task_of(row.get("task"), where), answers)


def _answer(value: Any, where: str) -> Answer:
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        raise CanaryError("not an answer", where=where, hint="an object with `text` and `passed`")
    passed, logprob = value.get("passed"), value.get("logprob")
    if passed is not None and not isinstance(passed, bool):
        raise CanaryError(f"passed is {passed!r}", where=where, hint="true, false or null")
    if logprob is not None and not _is_logprob(logprob):
        raise CanaryError(f"logprob is {logprob!r}", where=where, hint="nats, at most 0")
    try:
        faults = frozenset(Fault(each) for each in value.get("faults", ()))
    except (TypeError, ValueError):
        raise CanaryError("faults are not known", where=where, hint=", ".join(Fault)) from None
    return Answer(value["text"], passed, None if logprob is None else float(logprob), faults)


def _is_logprob(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value <= 1e-6
