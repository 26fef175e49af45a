"""Evaluations made by others, read: lm-evaluation-harness, and tables as CSV.

lm-evaluation-harness (0.4) writes `results_TIME.json` with averages and, asked with
`--log_samples`, `samples_TASK_TIME.jsonl` with each answer beside it. A folder of
such files is one evaluation; with several runs in it, the newest of each task counts.

A CSV has a header. One row a task: `family,task,score`, and `answer,expected` if
wanted. One row a family: `family,rate,tasks`. Other columns are ignored.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from enginewatch.canary.errors import CanaryError
from enginewatch.canary.evaluation import Evaluation, Outcome, rates_of
from enginewatch.canary.files import json_value, lines, text_of
from enginewatch.canary.paired import Rate

METRICS: Final = (
    "exact_match",
    "pass@1",
    "pass_at_1",
    "acc",
    "acc_norm",
    "prompt_level_strict_acc",
)
"""Those that say of each answer whether it is right, the first that a task has is taken."""
_FILTERS: Final = ("strict-match", "create_test", "none", "flexible-extract")
"""Of several ways to find the answer in the text, the order in which they are taken."""

_SAMPLES: Final = re.compile(
    r"samples_(?P<task>.+?)(?:_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl"
)
_SHOWN: Final = 2_000
"""Characters that are kept of an answer, to be shown."""


def read_evaluation(path: Path) -> Evaluation:
    """The evaluation at `path`: results JSON, samples JSONL, CSV, or a folder of the first two.

    Samples beside a results file are read with it. Raises CanaryError naming file and
    line or key.
    """
    if path.is_dir():
        return _folder(path)
    if path.suffix == ".csv":
        return _table(path)
    if path.suffix == ".jsonl":
        outcomes = tuple(_samples(path))
        if not outcomes:
            raise CanaryError("no samples in it", where=str(path))
        return Evaluation(str(path), rates_of(outcomes), outcomes)
    return _results(path, _beside(path))


def _folder(folder: Path) -> Evaluation:
    results = sorted(folder.rglob("results*.json"), key=lambda path: path.name)
    samples = sorted(folder.rglob("samples_*.jsonl"), key=lambda path: path.name)
    if results:
        return _results(results[-1], samples)
    if not samples:
        hint = "results_*.json or samples_*.jsonl, as lm_eval --output_path writes them"
        raise CanaryError("no evaluation in this folder", where=str(folder), hint=hint)
    outcomes = _newest(samples)
    return Evaluation(str(folder), rates_of(outcomes), outcomes)


def _beside(results: Path) -> list[Path]:
    """The samples of the same run: their names end in the same time."""
    time = results.stem.removeprefix("results").lstrip("_")
    return sorted(results.parent.glob(f"samples_*_{time}.jsonl")) if time else []


def _newest(samples: Iterable[Path]) -> tuple[Outcome, ...]:
    """All outcomes; `samples` are in the order of their times, the newest last."""
    by_task = {_task_of(path): path for path in samples}
    return tuple(outcome for path in by_task.values() for outcome in _samples(path))


def _task_of(path: Path) -> str:
    found = _SAMPLES.fullmatch(path.name)
    return found["task"] if found else path.stem.removeprefix("samples_")


def _results(path: Path, samples: Iterable[Path]) -> Evaluation:
    found = json_value(text_of(path), str(path))
    if not isinstance(found, Mapping) or not isinstance(found.get("results"), Mapping):
        hint = "lm_eval --output_path writes a JSON object with the key `results`"
        raise CanaryError("not results of an evaluation", where=str(path), hint=hint)
    counts, groups = found.get("n-samples"), found.get("group_subtasks")
    rates = {}
    for task, values in found["results"].items():
        # A group's average is made of its tasks, which are listed too.
        if isinstance(groups, Mapping) and groups.get(task):
            continue
        rate = _rate(values, _count(counts, task)) if isinstance(values, Mapping) else None
        if rate is not None:
            rates[str(task)] = rate
    outcomes = _newest(samples)
    rates.update(rates_of(outcomes))
    if not rates:
        hint = f"of these metrics: {', '.join(METRICS)}, and `n-samples` beside `results`"
        raise CanaryError("no pass rates in it", where=str(path), hint=hint)
    return Evaluation(str(path), rates, outcomes, _about(found))


def _rate(values: Mapping[str, Any], tasks: int | None) -> Rate | None:
    for metric in METRICS:
        named = [key for key in values if key.split(",")[0] == metric]
        named.sort(key=lambda key: _rank(key.partition(",")[2]))
        for key in named:
            value = values[key]
            if _is_number(value) and 0 <= value <= 1:
                known = tasks or _tasks_from_error(value, values.get(key.replace(",", "_stderr,")))
                return Rate(float(value), known) if known else None
    return None


def _tasks_from_error(rate: float, error: Any) -> int | None:
    """How many tasks a standard error of a pass rate was computed from."""
    if not _is_number(error) or error <= 0 or not 0 < rate < 1:
        return None
    return 1 + round(rate * (1 - rate) / float(error) ** 2)


def _count(counts: Any, task: str) -> int | None:
    found = counts.get(task) if isinstance(counts, Mapping) else None
    value = found.get("effective", found.get("original")) if isinstance(found, Mapping) else found
    return int(value) if isinstance(value, int) and value > 0 else None


def _about(found: Mapping[str, Any]) -> dict[str, str]:
    config = found.get("config")
    told = {
        "model": found.get("model_name"),
        "engine": found.get("model_source"),
        "version": found.get("lm_eval_version"),
    }
    if isinstance(config, Mapping):
        told["model"] = told["model"] or config.get("model_args")
        told["engine"] = told["engine"] or config.get("model")
        told["format"] = config.get("model_dtype")
    return {name: str(value)[:200] for name, value in told.items() if value}


def _samples(path: Path) -> Iterator[Outcome]:
    """The answers in a file of samples, each under one filter and one metric."""
    task = _task_of(path)
    chosen: dict[str, tuple[int, Outcome]] = {}
    for where, line in lines(path):
        row = json_value(line, where)
        if not isinstance(row, Mapping) or "doc_id" not in row:
            raise CanaryError("not a sample", where=where, hint="an object with `doc_id`")
        rank = _rank(str(row.get("filter", "none")))
        name = str(row["doc_id"])
        if name not in chosen or rank < chosen[name][0]:
            chosen[name] = rank, _outcome(task, name, row, where)
    for _, outcome in chosen.values():
        yield outcome


def _outcome(task: str, name: str, row: Mapping[str, Any], where: str) -> Outcome:
    metric = next((each for each in METRICS if _is_number(row.get(each))), None)
    if metric is None:
        hint = f"one of {', '.join(METRICS)}"
        raise CanaryError("the sample has no metric of right and wrong", where=where, hint=hint)
    score = float(row[metric])
    if not math.isfinite(score):
        raise CanaryError(f"{metric} is {score}", where=where, hint="from 0 to 1")
    answer = row.get("filtered_resps", row.get("resps"))
    return Outcome(task, name, score, _shown(answer), _shown(row.get("target")))


def _shown(value: Any) -> str:
    """The text inside lists of lists, as far as it is shown."""
    while isinstance(value, list) and value:
        value = value[0]
    return ("" if value is None else str(value))[:_SHOWN]


def _rank(name: str) -> int:
    return _FILTERS.index(name) if name in _FILTERS else len(_FILTERS)


def _table(path: Path) -> Evaluation:
    reader = csv.DictReader(line for _, line in lines(path))
    columns = set(reader.fieldnames or ())
    if {"family", "task", "score"} <= columns:
        outcomes = tuple(_row(row, f"{path}:{reader.line_num}") for row in _rows(reader, path))
        rates = rates_of(outcomes)
    elif {"family", "rate", "tasks"} <= columns:
        outcomes = ()
        rates = dict(_family(row, f"{path}:{reader.line_num}") for row in _rows(reader, path))
    else:
        hint = "family,task,score or family,rate,tasks"
        raise CanaryError("the header has not the columns it needs", where=f"{path}:1", hint=hint)
    if not rates:
        raise CanaryError("no rows", where=str(path))
    return Evaluation(str(path), rates, outcomes)


def _rows(reader: csv.DictReader[str], path: Path) -> Iterator[dict[str, str]]:
    try:
        for row in reader:
            yield {key: value or "" for key, value in row.items() if isinstance(key, str)}
    except csv.Error as failure:
        raise CanaryError(f"not CSV: {failure}", where=f"{path}:{reader.line_num}") from None


def _row(row: Mapping[str, str], where: str) -> Outcome:
    score = _number(row, "score", where)
    if not 0 <= score <= 1:
        raise CanaryError(f"score is {score:g}", where=where, hint="from 0 (wrong) to 1 (right)")
    answer, expected = row.get("answer", "")[:_SHOWN], row.get("expected", "")[:_SHOWN]
    return Outcome(row["family"], row["task"], score, answer, expected)


def _family(row: Mapping[str, str], where: str) -> tuple[str, Rate]:
    rate, tasks = _number(row, "rate", where), _number(row, "tasks", where)
    if not (0 <= rate <= 1 and tasks >= 1 and tasks.is_integer()):
        hint = "a rate from 0 to 1, of at least one task"
        raise CanaryError(f"{rate:g} of {tasks:g} tasks is no pass rate", where=where, hint=hint)
    return row["family"], Rate(rate, int(tasks))


def _number(row: Mapping[str, str], column: str, where: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise CanaryError(f"{column} is {row[column]!r}", where=where, hint="a number")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
