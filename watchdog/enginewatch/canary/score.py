"""Is an answer right? Exactly, and without goodwill: what can't be read is wrong.

| kind | right when |
|---|---|
| `number` | the answer gives one number, and it is equal: `1,234.0` is `1234` |
| `exact` | the text is the same, without blanks, one pair of quotes or one code fence around it |
| `pick` | what matches the task's pattern in the text is the answer, and nothing else matches |
| `json` | the one JSON value in the text, fenced or not, is equal; NaN is not JSON |
| `code` | the function returns each case's value, in `enginewatch.canary.sandbox` |

Where a number stands among words: after the last `Answer:` (or `####`, or in a `\\boxed{}`)
if there is one, else alone in the last line, else it is the only number of the text. An
answer with two such numbers is no answer. What a model thinks before `</think>` does not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final, NamedTuple

from enginewatch.canary import sandbox
from enginewatch.canary.task import Kind, Task
from enginewatch.model import compile_re2

LONGEST: Final = 65_536
"""Characters of an answer; what is longer is wrong, whatever is in it."""
_MOST_CODE: Final = 16_384

_NUMBER: Final = re.compile(
    r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w])", re.ASCII
)
_MARK: Final = re.compile(r"(?:answer(?: is)?\**\s*[:=]|####)", re.ASCII | re.IGNORECASE)
_BOXED: Final = re.compile(r"\\boxed\{([^{}]{0,100})\}")
_FENCE: Final = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[ \t]*$", re.MULTILINE)
_QUOTES: Final = ('""', "''", "``", "“”")
_MINUS: Final = str.maketrans({"\u2212": "-", "\u00a0": " "})


class Grade(StrEnum):
    """`unscored`: this machine can't say; neither right nor wrong."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSCORED = "unscored"


class Score(NamedTuple):
    """A grade, and in a few words what was found, without the answer's own text."""

    grade: Grade
    why: str = ""

    @property
    def passed(self) -> bool:
        return self.grade is Grade.RIGHT


RIGHT: Final = Score(Grade.RIGHT)


def wrong(why: str) -> Score:
    return Score(Grade.WRONG, why)


def score(task: Task, answer: str) -> Score:
    """Check an answer. Never raises for what is in the answer."""
    if len(answer) > LONGEST:
        return wrong(f"{len(answer)} characters")
    said = without_thoughts(answer)
    if not said.strip():
        return wrong("empty")
    return _SCORERS[task.kind](task, said)


def without_thoughts(answer: str) -> str:
    """What is said after a model has thought; nothing, if it never stops to think."""
    _, closed, said = answer.rpartition("</think>")
    if closed:
        return said
    return "" if answer.lstrip().startswith("<think>") else answer


def _score_number(task: Task, said: str) -> Score:
    found = numbers(said)
    if not found:
        return wrong("no number")
    if len(found) > 1:
        return wrong("several numbers")
    return RIGHT if found == {_decimal(str(task.answer))} else wrong("another number")


def numbers(said: str) -> set[Decimal]:
    """The numbers that the text gives as its answer: one, if it means one."""
    text = said.translate(_MINUS)
    boxed = _BOXED.findall(text)
    if boxed:
        return _values(boxed[-1])
    parts = _MARK.split(text)
    if len(parts) > 1:
        marked = parts[-1].strip().split("\n", 1)[0]
        return _values(marked)
    lines = text.strip().splitlines()
    last = lines[-1].strip(" \t*_`$.=")
    alone = _NUMBER.fullmatch(last)
    return _values(last) if alone else _values(text)


def _values(text: str) -> set[Decimal]:
    return {_decimal(each) for each in _NUMBER.findall(text)}


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return Decimal("NaN")  # which equals nothing


def _score_exact(task: Task, said: str) -> Score:
    return RIGHT if _bare(said) == str(task.answer).strip() else wrong("another text")


def _score_pick(task: Task, said: str) -> Score:
    found = {match.group(0) for match in compile_re2(task.pattern).finditer(said)}
    if found == {task.answer}:
        return RIGHT
    return wrong("nothing that could be the answer" if not found else "another, or several")


def _score_json(task: Task, said: str) -> Score:
    blocks = fenced(said)
    if len(blocks) > 1:
        return wrong("several answers")
    try:
        value = json.loads(
            blocks[0] if blocks else said,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError):
        return wrong("not JSON")
    return RIGHT if same(value, task.answer) else wrong("another value")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def same(value: Any, expected: Any) -> bool:
    """Equality as JSON has it: `true` is not 1, 1.0 is 1, the order of keys does not count."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(
            same(value[key], expected[key]) for key in expected
        )
    if isinstance(value, list) and isinstance(expected, list | tuple):
        return len(value) == len(expected) and all(map(same, value, expected))
    return bool(value == expected)


def _score_code(task: Task, said: str) -> Score:
    code = code_in(said, task.function)
    if code is None:
        return wrong("no such function, or several")
    if len(code) > _MOST_CODE:
        return wrong("too much code")
    program = sandbox.Program(code, task.function, [case.arguments for case in task.cases])
    try:
        (returned,) = sandbox.run([program])
    except sandbox.SandboxError as failure:
        return Score(Grade.UNSCORED, str(failure))
    return _score_returned(task, returned)


def _score_returned(task: Task, returned: Sequence[sandbox.Returned]) -> Score:
    for case, found in zip(task.cases, returned, strict=True):
        if found.error:
            return wrong(found.error)
        if not same(found.value, case.value):
            return wrong("another value")
    return RIGHT


def code_in(said: str, function: str) -> str | None:
    """The code that defines a function: the one block that does, or the text if it has no block."""
    blocks = fenced(said) or [said]
    defines = re.compile(rf"^def {re.escape(function)}\b", re.MULTILINE)
    found = [block for block in blocks if defines.search(block)]
    return found[0] if len(found) == 1 else None


def fenced(said: str) -> list[str]:
    """What stands between code fences; a block that is never closed goes to the end."""
    blocks = []
    opened: int | None = None
    for fence in _FENCE.finditer(said):
        if opened is None:
            opened = fence.end() + 1
        elif not fence[1]:
            blocks.append(said[opened : fence.start()])
            opened = None
    if opened is not None:
        blocks.append(said[opened:])
    return blocks


def _bare(said: str) -> str:
    """The text without what people put around it."""
    blocks = fenced(said)
    text = (blocks[0] if len(blocks) == 1 and said.strip().startswith("```") else said).strip()
    for pair in _QUOTES:
        if len(text) >= 2 and text[0] == pair[0] and text[-1] == pair[1]:
            return text[1:-1].strip()
    return text


_SCORERS: Final[Mapping[Kind, Callable[[Task, str], Score]]] = {
    Kind.NUMBER: _score_number,
    Kind.EXACT: _score_exact,
    Kind.PICK: _score_pick,
    Kind.JSON: _score_json,
    Kind.CODE: _score_code,
}
