"""Interpreter for the script language of Prometheus' PromQL tests (`promql/promqltest/README.md`).

    load 1m
      requests_total{job="a"} 0+60x10 _ stale
    eval instant at 5m rate(requests_total[2m])
      {job="a"} 1

`read_script` turns a file into steps, `run_script` runs them and tells of each
`eval` how it went. Native histogram points `{{...}}` are not loaded; a case that
expects or selects any is told apart as NATIVE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.promql.memory_store import MemoryStore

from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels, Millis, matches_all
from enginewatch.promql.ast import VectorSelector
from enginewatch.promql.evaluator import Evaluator
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.seriesdesc import parse_description
from enginewatch.promql.values import Annotation, Matrix, RangeResult, Scalar, String, Value, Vector
from enginewatch.units import parse_duration

TOLERANCE = 1e-6
SMALLEST_NORMAL = 2.2250738585072014e-308
DEFAULT_LOOKBACK: Millis = 300_000

_HISTOGRAM = re.compile(r"\{\{.*?\}\}(?:[+-]\{\{.*?\}\})?(?:x(?P<times>\d+))?")
_EVAL = re.compile(
    r"eval(?:_(?P<old>fail|warn|info|ordered))?\s+(?:instant\s+at\s+(?P<at>\S+)"
    r"|range\s+from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+))\s+(?P<expr>.+)"
)
_RANGE_VECTOR = re.compile(r"range vector from (\S+) to (\S+) step (\S+)")

Point = float | None
"""A value, or no sample at that time."""


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NATIVE = "native histograms"


@dataclass(frozen=True, slots=True)
class Load:
    """Series to add: their points, the first at time 0, one every `interval`."""

    interval: Millis
    series: tuple[tuple[Labels, tuple[Point, ...]], ...]
    native: tuple[Labels, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One `eval` with what is expected of it. An instant query has `step` 0 and `start == end`."""

    line: int
    expr: str
    start: Millis
    end: Millis
    step: Millis
    lines: tuple[str, ...]
    old: str | None = None

    @property
    def is_range(self) -> bool:
        return self.step > 0


Step = Load | Clear | Case


@dataclass(frozen=True, slots=True)
class Result:
    """How a case went; `why` tells what was wrong."""

    case: Case
    outcome: Outcome
    why: str = ""


def parse_at(text: str) -> Millis:
    """A time or duration: `5m`, or seconds."""
    try:
        return parse_duration(text)
    except ValueError:
        return round(float(text) * 1000)


def read_script(text: str) -> Iterator[Step]:
    """The steps of a script. Raises ValueError with the line that is not understood."""
    lines = [line.strip() for line in text.splitlines()]
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line or line.startswith("#"):
            continue
        first = number
        body: list[str] = []
        while number < len(lines) and not _starts_step(lines[number]):
            if lines[number] and not lines[number].startswith("#"):
                body.append(lines[number])
            number += 1
        yield _step(line, body, first)


def _starts_step(line: str) -> bool:
    return bool(re.match(r"(load|load_with_nhcb|clear|eval\w*)(\s|$)", line))


def _step(line: str, body: list[str], number: int) -> Step:
    word, _, rest = line.partition(" ")
    if word == "clear":
        return Clear()
    if word in ("load", "load_with_nhcb"):
        return _load(parse_at(rest.strip()), body, converts=word == "load_with_nhcb")
    found = _EVAL.fullmatch(line)
    if found is None:
        raise ValueError(f"line {number}: not a step: {line}")
    at, start, end, step = (found[name] for name in ("at", "start", "end", "step"))
    return Case(
        line=number,
        expr=found["expr"].strip(),
        start=parse_at(start or at),
        end=parse_at(end or at),
        step=parse_at(step) if step else 0,
        lines=tuple(body),
        old=found["old"],
    )


def _load(interval: Millis, body: Iterable[str], *, converts: bool) -> Load:
    series: list[tuple[Labels, tuple[Point, ...]]] = []
    native: list[Labels] = []
    for line in body:
        labels, points = parse_description(_HISTOGRAM.sub(_no_samples, line))
        series.append((labels, tuple(points)))
        if _HISTOGRAM.search(line):
            native.append(labels)
        if converts and labels.name.endswith("_bucket") and "le" in labels:
            base = labels.name.removesuffix("_bucket")
            native.append(labels.with_(le="", __name__=base))
    return Load(interval, tuple(series), tuple(native))


def _no_samples(histograms: re.Match[str]) -> str:
    return f"_x{int(histograms['times'] or 0) + 1}"


@dataclass(slots=True)
class _World:
    """What a script has loaded so far."""

    store: MemoryStore = field(default_factory=MemoryStore)
    native: list[Labels] = field(default_factory=list)

    def load(self, load: Load) -> None:
        for labels, points in load.series:
            at = load.interval
            self.store.add(labels, [(n * at, v) for n, v in enumerate(points) if v is not None])
        self.native.extend(load.native)

    def selects_native(self, expr: str) -> bool:
        try:
            tree = parse_expr(expr, experimental=True)
        except EnginewatchError:
            return False
        return any(
            matches_all(labels, node.matchers)
            for node in tree.walk()
            if isinstance(node, VectorSelector)
            for labels in self.native
        )


def run_script(path: Path, *, delayed_name_removal: bool = False) -> Iterator[Result]:
    """Run a script and tell how each of its cases went."""
    world = _World()
    for step in read_script(path.read_text()):
        if isinstance(step, Load):
            world.load(step)
        elif isinstance(step, Clear):
            world = _World()
        else:
            evaluator = Evaluator(world.store, delayed_name_removal=delayed_name_removal)
            yield _run(step, world, evaluator)


def _run(case: Case, world: _World, evaluator: Evaluator) -> Result:
    if any("{{" in line for line in case.lines):
        return Result(case, Outcome.NATIVE)
    why = _judge(case, evaluator)
    if not why:
        return Result(case, Outcome.PASSED)
    # Where floats and histograms mix, what comes of the floats alone may be right or not.
    native = world.selects_native(case.expr)
    return Result(case, Outcome.NATIVE if native else Outcome.FAILED, why)


@dataclass(slots=True)
class _Expectation:
    """The lines below an `eval`, sorted by what they say."""

    fails: bool = False
    failure: Callable[[str], bool] | None = None
    ordered: bool = False
    string: str | None = None
    matrix: tuple[Millis, Millis, Millis] | None = None
    annotations: list[tuple[str, str]] = field(default_factory=list)
    scalar: float | None = None
    series: list[tuple[Labels, list[Point]]] = field(default_factory=list)


def _expected(case: Case) -> _Expectation:
    wanted = _Expectation(fails=case.old == "fail", ordered=case.old == "ordered")
    for line in case.lines:
        word, _, rest = line.partition(" ")
        if word == "expect":
            _expect(wanted, rest.strip())
        elif word == "expected_fail_message":
            wanted.failure = rest.__eq__
        elif word == "expected_fail_regexp":
            wanted.failure = re.compile(rest).search
        elif _is_number(line):
            wanted.scalar = float(line)
        else:
            wanted.series.append(parse_description(line))
    return wanted


def _expect(wanted: _Expectation, what: str) -> None:
    word, _, rest = what.partition(" ")
    if word == "fail":
        wanted.fails = True
        kind, _, text = rest.partition(":")
        if kind == "msg":
            wanted.failure = text.strip().__eq__
        elif kind == "regex":
            wanted.failure = re.compile(text.strip()).search
    elif word == "ordered":
        wanted.ordered = True
    elif word == "string":
        literal = parse_expr(rest)
        wanted.string = literal.value
    elif found := _RANGE_VECTOR.fullmatch(what):
        start, end, step = found.groups()
        wanted.matrix = (parse_at(start), parse_at(end), parse_at(step))
    else:
        wanted.annotations.append((word, rest.strip()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _judge(case: Case, evaluator: Evaluator) -> str:
    """What is wrong with a case, or nothing."""
    wanted = _expected(case)
    try:
        expr = parse_expr(case.expr, experimental=True)
        result: Value | RangeResult
        if case.is_range:
            result = evaluator.range(expr, case.start, case.end, case.step)
        else:
            result = evaluator.instant(expr, case.start)
    except EnginewatchError as failure:
        if not wanted.fails:
            return f"failed: {failure}"
        if wanted.failure is not None and not wanted.failure(failure.what):
            return f"another failure than expected: {failure.what}"
        return ""
    if wanted.fails:
        return "did not fail"
    return (
        _compare(wanted, result, case)
        or _compare_annotations(wanted, result.annotations, case.expr)
        or _compare_with_range(result, evaluator, expr, case)
    )


def _compare(wanted: _Expectation, result: Value | RangeResult, case: Case) -> str:
    if isinstance(result, Scalar):
        if wanted.scalar is None or not almost_equal(result.value, wanted.scalar):
            return f"{result.value}, not {wanted.scalar}"
        return ""
    if isinstance(result, String):
        return "" if result.value == wanted.string else f"{result.value!r}, not {wanted.string!r}"
    if isinstance(result, RangeResult):
        return _compare_series(wanted, result.series, range(case.start, case.end + 1, case.step))
    if isinstance(result, Matrix):
        start, end, step = wanted.matrix or (0, 0, 1)
        return _compare_series(wanted, result.series(), range(start, end + 1, step))
    assert isinstance(result, Vector)
    if wanted.scalar is not None:
        return "a vector, not a scalar"
    got = list(result.samples())
    if wanted.ordered and [labels for labels, _ in got] != [labels for labels, _ in wanted.series]:
        return f"not in order: {got}"
    return _differences({labels: [value] for labels, value in got}, dict(wanted.series))


def _compare_series(wanted: _Expectation, series: Iterable[Any], times: range) -> str:
    got: dict[Labels, list[Point]] = {}
    for labels, at, values in series:
        if labels in got:
            return f"twice: {labels}"
        known = dict(zip(at.tolist(), values.tolist(), strict=True))
        if stray := known.keys() - set(times):
            return f"samples of {labels} at unexpected times {sorted(stray)}"
        got[labels] = [known.get(each) for each in times]
    expected = {
        labels: [*points, *[None] * len(times)][: len(times)] for labels, points in wanted.series
    }
    return _differences(got, {k: v for k, v in expected.items() if any(p is not None for p in v)})


def _differences(got: dict[Labels, list[Point]], wanted: dict[Labels, list[Point]]) -> str:
    for labels in sorted(got.keys() | wanted.keys()):
        ours, theirs = got.get(labels), wanted.get(labels)
        if ours is None:
            return f"{labels} is missing"
        if theirs is None:
            return f"{labels} is unexpected: {ours}"
        if len(ours) != len(theirs) or not all(map(almost_equal, ours, theirs)):
            return f"{labels} is {ours}, not {theirs}"
    return ""


def almost_equal(a: Point, b: Point, tolerance: float = TOLERANCE) -> bool:
    """As `util/almost.Equal` in Prometheus: relative to the sum; NaN equals NaN."""
    if a is None or b is None:
        return a is b
    if a == b or (a != a and b != b):
        return True
    total, gap = abs(a) + abs(b), abs(a - b)
    if a == 0 or b == 0 or total < SMALLEST_NORMAL:
        return gap < tolerance * SMALLEST_NORMAL
    return gap / min(total, 1.7976931348623157e308) < tolerance


def _compare_annotations(wanted: _Expectation, annotations: Iterable[Annotation], expr: str) -> str:
    given = [note.describe(expr) for note in annotations]
    of = {
        "warn": [note for note in given if note.startswith("PromQL warning")],
        "info": [note for note in given if note.startswith("PromQL info")],
    }
    for word, rest in wanted.annotations:
        found = of[word.removeprefix("no_")]
        if word.startswith("no_"):
            if found:
                return f"unexpected {found}"
            continue
        kind, _, text = rest.partition(":")
        text = text.strip()
        if not found:
            return f"no {word} annotation"
        if kind == "msg" and text not in found:
            return f"{found}, not {text!r}"
        if kind == "regex" and not any(re.search(text, note) for note in found):
            return f"{found}, not matching {text!r}"
    return ""


def _compare_with_range(result: Any, evaluator: Evaluator, expr: Any, case: Case) -> str:
    """An instant query must say what a range query says at that time."""
    if not isinstance(result, Vector | Scalar):
        return ""
    result_of = {
        labels: values.tolist()
        for labels, _, values in evaluator.range(expr, case.start, case.start, 60_000).series
    }
    if "step()" in case.expr:
        return ""
    samples = [(Labels(), result.value)] if isinstance(result, Scalar) else result.samples()
    why = _differences(result_of, {labels: [value] for labels, value in samples})
    return why and f"as a range query: {why}"
