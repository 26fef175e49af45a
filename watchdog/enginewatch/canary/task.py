"""A task: a question, how its answer is checked, and the JSON line in which both are written.

One object a line, UTF-8; this is also how a user's own tasks are given:

```
{"id": "add-1", "family": "arithmetic", "prompt": "What is 2 + 2?", "score": "number",
 "answer": "4", "max_tokens": 16}
```

| key | |
|---|---|
| `id`, `family` | texts; ids are unique in a file |
| `prompt` | what is asked: the whole prompt of a completion, or the user's message of a chat |
| `score` | `number`, `exact`, `pick`, `json` or `code`: see `enginewatch.canary.score` |
| `answer` | the right answer: a text, or any value for `json`; not for `code` |
| `pattern` | for `pick`: RE2 of what counts as an answer |
| `function`, `cases` | for `code`: the function, and pairs of its arguments and its value |
| `max_tokens` | how long an answer may be; 256 if not given |
| `stop` | texts that end an answer; none if not given |
| `target` | the continuation whose log-probability is measured; the answer itself if not given |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from enginewatch.canary.errors import CanaryError
from enginewatch.canary.files import json_value, lines
from enginewatch.model import compile_re2
from enginewatch.yamltext import closest

MOST_TOKENS: Final = 256
"""Of an answer, where the task does not say."""
_NAME: Final = 200
_KEYS: Final = frozenset(
    (
        *("id", "family", "prompt", "score", "answer", "pattern", "function", "cases"),
        *("max_tokens", "stop", "target"),
    )
)


class Kind(StrEnum):
    """How an answer is checked."""

    NUMBER = "number"
    EXACT = "exact"
    PICK = "pick"
    JSON = "json"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Case:
    """One call of the function that was asked for, and what it must return."""

    arguments: tuple[Any, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Task:
    """One question. `answer` is a text but for `json`; `cases` are of `code` alone."""

    id: str
    family: str
    prompt: str
    kind: Kind
    answer: Any = None
    pattern: str = ""
    function: str = ""
    cases: tuple[Case, ...] = ()
    max_tokens: int = MOST_TOKENS
    stop: tuple[str, ...] = ()
    target: str | None = None

    @property
    def likely(self) -> str | None:
        """The text whose log-probability is measured after the prompt, if there is one."""
        if self.target is not None:
            return self.target or None
        return self.answer if self.kind in {Kind.NUMBER, Kind.EXACT, Kind.PICK} else None

    @property
    def tokens(self) -> int:
        """About how many tokens it costs to ask this: four characters a token, and the answer."""
        return len(self.prompt) // 4 + self.max_tokens

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": self.id,
            "family": self.family,
            "prompt": self.prompt,
            "score": self.kind.value,
        }
        if self.kind is Kind.CODE:
            told["function"] = self.function
            told["cases"] = [[list(case.arguments), case.value] for case in self.cases]
        else:
            told["answer"] = self.answer
        if self.pattern:
            told["pattern"] = self.pattern
        told["max_tokens"] = self.max_tokens
        if self.stop:
            told["stop"] = list(self.stop)
        if self.target is not None:
            told["target"] = self.target
        return told


def read_tasks(path: Path) -> tuple[Task, ...]:
    """The tasks in a file. Raises CanaryError naming line and key."""
    tasks = tuple(task_of(json_value(text, where), where) for where, text in lines(path))
    if not tasks:
        raise CanaryError("no tasks in it", where=str(path))
    return unique(tasks, str(path))


def unique(tasks: tuple[Task, ...], where: str) -> tuple[Task, ...]:
    """The tasks, if no two are of one name. Raises CanaryError."""
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise CanaryError(f"two tasks are called {task.id!r}", where=where)
        seen.add(task.id)
    return tasks


def write_tasks(tasks: Iterable[Task]) -> Iterator[str]:
    """One line a task."""
    for task in tasks:
        yield json.dumps(task.to_json(), ensure_ascii=False)


def task_of(value: Any, where: str) -> Task:
    """A task from its object. Raises CanaryError."""
    if not isinstance(value, Mapping):
        raise CanaryError("not a task", where=where, hint="a JSON object")
    for key in value:
        if key not in _KEYS:
            raise CanaryError(f"unknown key {key!r}", where=where, hint=closest(str(key), _KEYS))
    kind = _kind(value.get("score"), where)
    return Task(
        id=_text(value, "id", where)[:_NAME],
        family=_text(value, "family", where)[:_NAME],
        prompt=_text(value, "prompt", where),
        kind=kind,
        answer=_answer(value, kind, where),
        pattern=_pattern(value, kind, where),
        function=_text(value, "function", where) if kind is Kind.CODE else "",
        cases=tuple(_cases(value.get("cases"), where)) if kind is Kind.CODE else (),
        max_tokens=_count(value.get("max_tokens", MOST_TOKENS), where),
        stop=_stops(value.get("stop", []), where),
        target=None if value.get("target") is None else _text(value, "target", where, empty=True),
    )


def _kind(value: Any, where: str) -> Kind:
    if value not in set(Kind):
        hint = f"one of {', '.join(Kind)}"
        raise CanaryError(f"score is {value!r}", where=where, hint=hint)
    return Kind(value)


def _answer(value: Mapping[str, Any], kind: Kind, where: str) -> Any:
    if kind is Kind.CODE:
        return None
    if kind is Kind.JSON:
        if "answer" not in value:
            raise CanaryError("answer is missing", where=where)
        return value["answer"]
    return _text(value, "answer", where)


def _pattern(value: Mapping[str, Any], kind: Kind, where: str) -> str:
    if kind is not Kind.PICK:
        return ""
    pattern = _text(value, "pattern", where)
    try:
        matches = compile_re2(pattern).fullmatch(value["answer"])
    except ValueError as failure:
        raise CanaryError(f"pattern: {failure}", where=where, hint="RE2") from None
    if not matches:
        raise CanaryError("pattern does not match the answer itself", where=where)
    return pattern


def _cases(value: Any, where: str) -> Iterator[Case]:
    if not isinstance(value, list) or not value:
        raise CanaryError("cases are missing", where=where, hint="[[[argument, ...], value], ...]")
    for case in value:
        if not (isinstance(case, list) and len(case) == 2 and isinstance(case[0], list)):
            hint = "[[argument, ...], value]"
            raise CanaryError(f"not a case: {str(case)[:80]}", where=where, hint=hint)
        yield Case(tuple(case[0]), case[1])


def _text(value: Mapping[str, Any], key: str, where: str, *, empty: bool = False) -> str:
    found = value.get(key)
    if isinstance(found, str) and (found or empty):
        return found
    what = "is missing" if found is None else f"is {str(found)[:80]!r}"
    raise CanaryError(f"{key} {what}", where=where, hint="a text" if empty else "a text, not empty")


def _count(value: Any, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise CanaryError(f"max_tokens is {value!r}", where=where, hint="a whole number, from 1")


def _stops(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(each, str) and each for each in value):
        return tuple(value)
    raise CanaryError(f"stop is {str(value)[:80]!r}", where=where, hint="a list of texts")
