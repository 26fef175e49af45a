"""Golden tasks, made from the templates in `rules/canary/*.yml` and a seed.

The same seed gives the same tasks, everywhere; another seed gives others, so that no
model can have learnt the answers. A family's file:

```
version: 1                  # goes into baselines: another version, other tasks
family: arithmetic
share: 3                    # of all tasks, beside the other families' shares
score: number               # see enginewatch.canary.score; also in a template
max_tokens: 16
draw: {...}                 # for all templates of the file
templates:
  - name: add
    draw:                   # in order; each may use those before it
      a: {integer: [100, 999]}
      b: {integer: [100, 999]}
    where: a != b           # drawn anew until it holds
    prompt: What is <<a>> + <<b>>?
    answer: <<a + b>>
```

What can be drawn: `integer: [least, most]`; `integers: {count: [least, most], range: [least,
most]}`; `choice: [...]`; `sample: {of: [...], count: n}`; `letters: n`, `digits: n`; `filler:
words`, prose that says nothing; `value: expression`. Between `<<` and `>>` stands an expression
(`enginewatch.canary.expression`); lists are written as JSON.

A template of kind `code` has `function`, `arguments` (drawn anew for each of `cases` calls)
and `reference`, the code whose results are the right ones.
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from enginewatch.canary import sandbox
from enginewatch.canary.errors import CanaryError
from enginewatch.canary.expression import evaluate
from enginewatch.canary.files import text_of
from enginewatch.canary.filler import filler
from enginewatch.canary.task import MOST_TOKENS, Case, Kind, Task, task_of
from enginewatch.rulepack import rules_path
from enginewatch.yamltext import load

_HOLE: Final = re.compile(r"<<([^<>]+)>>")
_ATTEMPTS: Final = 200
_OTHERS: Final = 20
"""How often a question is drawn that was asked already, until it is asked twice."""
DECISION: Final = "decision.yml"
"""The one file in the folder of families that is none."""


@dataclass(frozen=True, slots=True)
class Family:
    """A file of templates."""

    name: str
    version: int
    share: int
    templates: tuple[Mapping[str, Any], ...]
    file: str


def read_families(folder: Path | None = None) -> tuple[Family, ...]:
    """The families in a folder, by name; the shipped ones if none is given. Raises CanaryError."""
    folder = folder or rules_path() / "canary"
    files = sorted(path for path in folder.glob("*.yml") if path.name != DECISION)
    if not files:
        raise CanaryError("no task families", where=str(folder))
    return tuple(_family(path) for path in files)


def make_tasks(families: Sequence[Family], seed: str, count: int) -> tuple[Task, ...]:
    """`count` tasks, of each family its share, mixed. Code is left out, and the others have more,
    where its references can't be run (`sandbox.available`). Raises CanaryError."""
    if not sandbox.available():
        families = [family for family in families if not _is_code(family)]
    shares = sum(family.share for family in families)
    tasks: list[tuple[float, Task]] = []
    left, told = count, shares
    for family in families:
        wanted = round(left * family.share / told)
        left, told = left - wanted, told - family.share
        made = list(_tasks(family, seed, wanted))
        tasks += (((place + 0.5) / len(made), task) for place, task in enumerate(made))
    return tuple(task for _, task in sorted(tasks, key=lambda each: each[0]))


def _is_code(family: Family) -> bool:
    return any(template["score"] == Kind.CODE for template in family.templates)


def _tasks(family: Family, seed: str, count: int) -> Iterator[Task]:
    made = []
    asked: set[str] = set()
    for place in range(count):
        template = family.templates[place % len(family.templates)]
        name = f"{family.name}-{template['name']}-{place // len(family.templates)}"
        rng = random.Random(f"{seed}/{family.version}/{name}")  # noqa: S311 - not a secret
        for _ in range(_OTHERS):
            task = _task(family, template, name, rng)
            if task.task.prompt not in asked:
                break
        asked.add(task.task.prompt)
        made.append(task)
    yield from _with_values(made, family.file)


@dataclass(frozen=True, slots=True)
class _Made:
    """A task, and the code that knows the values of its cases."""

    task: Task
    reference: str = ""


def _task(family: Family, template: Mapping[str, Any], name: str, rng: random.Random) -> _Made:
    where = f"{family.file}: {template['name']}"
    names = _drawn(template, rng, where)
    fill = partial(_filled, names=names, where=where)
    told: dict[str, Any] = {
        "id": name,
        "family": family.name,
        "score": template["score"],
        "max_tokens": template.get("max_tokens", MOST_TOKENS),
        "prompt": fill(template["prompt"]).strip(),
    }
    told |= {key: template[key] for key in ("pattern", "function", "stop") if key in template}
    reference = ""
    if template["score"] == Kind.CODE:
        reference = fill(template["reference"])
        draws = template["arguments"]
        calls = [_draw_all(draws, rng, dict(names), where) for _ in range(template["cases"])]
        told["cases"] = [[[call[name] for name in draws], None] for call in calls]
    elif template["score"] == Kind.JSON:
        told["answer"] = _inside(template["answer"], fill, names, where)
    else:
        told["answer"] = fill(str(template["answer"]))
    if "target" in template:
        told["target"] = fill(template["target"])
    return _Made(task_of(told, where), reference)


def _with_values(made: Sequence[_Made], where: str) -> Iterator[Task]:
    """The tasks, those of code with what their references return."""
    code = [each for each in made if each.reference]
    programs = [
        sandbox.Program(
            each.reference, each.task.function, [case.arguments for case in each.task.cases]
        )
        for each in code
    ]
    returned = iter(sandbox.run(programs, sandbox.Limits(seconds=10)) if programs else ())
    for each in made:
        if not each.reference:
            yield each.task
            continue
        values = next(returned)
        failed = next((value.error for value in values if value.error), None)
        if failed:
            raise CanaryError(f"the reference fails: {failed}", where=f"{where}: {each.task.id}")
        cases = zip(each.task.cases, values, strict=True)
        yield replace(
            each.task, cases=tuple(Case(case.arguments, value.value) for case, value in cases)
        )


def _drawn(template: Mapping[str, Any], rng: random.Random, where: str) -> dict[str, Any]:
    for _ in range(_ATTEMPTS):
        names = _draw_all(template["draw"], rng, {}, where)
        if "where" not in template or evaluate(template["where"], names, where):
            return names
    raise CanaryError(f"nothing that is drawn fits {template['where']!r}", where=where)


def _draw_all(
    draws: Mapping[str, Any], rng: random.Random, names: dict[str, Any], where: str
) -> dict[str, Any]:
    for name, draw in draws.items():
        names[name] = _draw(draw, rng, names, where)
    return names


def _draw(draw: Mapping[str, Any], rng: random.Random, names: Mapping[str, Any], where: str) -> Any:
    try:
        ((kind, given),) = draw.items()
        if kind == "value":
            return evaluate(str(given), names, where)
        return _DRAWS[kind](given, rng)
    except (AttributeError, LookupError, TypeError, ValueError):
        hint = f"one of {', '.join((*_DRAWS, 'value'))}"
        raise CanaryError(f"can't draw {draw!r}", where=where, hint=hint) from None


def _integer(bounds: Sequence[int], rng: random.Random) -> int:
    low, high = bounds
    # `random()` alone is promised to give the same numbers in every version of Python.
    return low + int(rng.random() * (high - low + 1))


def _integers(given: Mapping[str, Sequence[int]], rng: random.Random) -> list[int]:
    return [_integer(given["range"], rng) for _ in range(_integer(given["count"], rng))]


def _choice(given: Sequence[Any], rng: random.Random) -> Any:
    return given[_integer((0, len(given) - 1), rng)]


def _sample(given: Mapping[str, Any], rng: random.Random) -> list[Any]:
    left = list(given["of"])
    return [left.pop(_integer((0, len(left) - 1), rng)) for _ in range(given["count"])]


def _characters(alphabet: str, count: int, rng: random.Random) -> str:
    return "".join(_choice(alphabet, rng) for _ in range(count))


_DRAWS: Final[Mapping[str, Callable[[Any, random.Random], Any]]] = {
    "integer": _integer,
    "integers": _integers,
    "choice": _choice,
    "sample": _sample,
    "letters": partial(_characters, string.ascii_uppercase),
    "digits": partial(_characters, string.digits),
    "filler": lambda words, rng: filler(words, lambda options: _choice(options, rng)),
}


def _filled(text: str, names: Mapping[str, Any], where: str) -> str:
    def value(hole: re.Match[str]) -> str:
        found = evaluate(hole[1], names, where)
        return found if isinstance(found, str) else json.dumps(found)

    return _HOLE.sub(value, text)


def _inside(value: Any, fill: Callable[[str], str], names: Mapping[str, Any], where: str) -> Any:
    """A JSON value with its holes filled; a text that is one hole becomes the value itself."""
    if isinstance(value, Mapping):
        return {key: _inside(each, fill, names, where) for key, each in value.items()}
    if isinstance(value, list):
        return [_inside(each, fill, names, where) for each in value]
    if not isinstance(value, str):
        return value
    hole = _HOLE.fullmatch(value)
    return evaluate(hole[1], names, where) if hole else fill(value)


def _family(path: Path) -> Family:
    where = str(path)
    found = load(text_of(path), where, CanaryError)
    try:
        common = {
            key: found[key] for key in ("score", "max_tokens", "pattern", "stop") if key in found
        }
        templates = tuple(
            {**common, **each, "draw": {**(found.get("draw") or {}), **(each.get("draw") or {})}}
            for each in found["templates"]
        )
        for template in templates:
            for key in ("name", "prompt", "score"):
                template[key]
        return Family(
            str(found["family"]), int(found["version"]), int(found["share"]), templates, path.name
        )
    except KeyError as failure:
        raise CanaryError(f"{failure.args[0]} is missing", where=where) from None
    except (AttributeError, TypeError, ValueError):
        hint = "version, family, share and templates, each with name, prompt and score"
        raise CanaryError("not a family of tasks", where=where, hint=hint) from None
