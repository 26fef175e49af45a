"""A workload as a recording shows it: prompts, answers, batch, and what a step takes.

The recording's pages go through the engine's own recording rules, so that any engine that has
a file in `rules/engines` can be read. Over the whole recording:

- tokens of a prompt and of an answer are the tokens read and written for each request that ended;
- the quiet latency is the tenth percentile of the gap between tokens;
- of each stretch the part `1 - quiet / gap` went to prompts: all of it, over all tokens that were
  read, is what one more token of a prompt costs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from enginewatch.alerting.rules import RuleFile, load_rule_files
from enginewatch.alerting.runners import vector_of
from enginewatch.alerting.trace import kept_series
from enginewatch.exposition import PageError, parse_page
from enginewatch.model import Labels, Millis
from enginewatch.preflight.readers.demand import Demand
from enginewatch.preflight.readers.unread import Unread
from enginewatch.promql.evaluator import Evaluator
from enginewatch.recording import RecordingError, ScrapeEvent, read_recording
from enginewatch.rulepack import rule_files
from enginewatch.store.head import Head

_STEP: Final[Millis] = 5_000
_KEPT: Final[Millis] = 3_600_000
_LONGEST: Final[Millis] = 6 * 3_600_000
"""Of a recording, what is read: hours are enough to see what a workload is like."""
_METRIC: Final = re.compile(rb"[a-zA-Z_:][\w:]*", re.ASCII)
_APART: Final[Millis] = 4_000
"""Pages nearer to each other are passed over: the rules' windows need no more."""
_NAMES: Final = (
    "engine:prompt_tokens:rate30s",
    "engine:generation_tokens:rate30s",
    "engine:inter_token_latency_seconds:mean30s",
    "engine:requests_running:sum",
    "engine:requests_finished:rate1m",
)
"""What is asked of every engine, in the order of `_Moment`."""
_QUIET: Final = 0.1
_BUSY: Final = 0.95


class _Moment(NamedTuple):
    """Of all engines at one time, the gap as a mean; NaN for what is not there."""

    prompt: float
    decode: float
    gap: float
    running: float
    finished: float


def recorded_demand(path: Path) -> Demand | Unread:
    """What the recording's engine carried; an `Unread` where it can't be read, or shows no load."""
    try:
        moments = list(_moments(path))
    except RecordingError as failure:
        return Unread(failure.where or str(path), failure.what, "prefill")
    except PageError as failure:
        return Unread(str(path), f"a page in it can't be read: {failure.what}", "prefill")
    return _demand(moments, str(path))


def _moments(path: Path) -> Iterator[_Moment]:
    files = _rules()
    spans = kept_series(files, _KEPT)
    head = Head(keep=spans.get)
    evaluator = Evaluator(head)
    written: dict[Labels, Millis] = {}
    first: Millis | None = None
    due: Millis = 0
    for event in read_recording(path, tolerant=True):
        if not isinstance(event, ScrapeEvent) or event.body is None:
            continue
        if first is None:
            first, due = event.at, event.at
        if event.at - first > _LONGEST:
            return
        while due < event.at:
            yield _moment(files, evaluator, due)
            # A gap of hours between two scrapes is no reason to look at each step of it.
            due = max(due + _STEP, event.at - 10 * _STEP)
        if event.at - written.get(event.labels, event.at - _APART) >= _APART:
            written[event.labels] = event.at
            _write(head, event, _only(event.body, spans))


def _rules() -> tuple[RuleFile, ...]:
    """The engines' files, with nothing in them but the rules that are asked for."""
    engines = [file for file in rule_files() if file.parent.name == "engines"]
    return tuple(
        replace(
            file,
            groups=tuple(
                replace(group, rules=tuple(rule for rule in group.rules if rule.name in _NAMES))
                for group in file.groups
            ),
        )
        for file in load_rule_files(engines)
    )


def _only(body: bytes, names: Collection[str | None]) -> bytes:
    """The lines of a page that have one of these names: a page has ten times as many."""
    kept = [line for line in body.split(b"\n") if _name(line) in names]
    return b"".join(line + b"\n" for line in kept)


def _name(line: bytes) -> str:
    found = _METRIC.match(line)
    return found[0].decode() if found else ""


def _write(head: Head, event: ScrapeEvent, page: bytes) -> None:
    target = {"instance": "recording", "job": "recording", "deployment": "recording"}
    labels = {**target, **event.labels}
    source = head.source(("recording", event.labels))
    refs, values = [], []
    for sample in parse_page(page).samples:
        ref = source.resolve(Labels({**sample.labels, **labels}))
        if ref is not None:
            refs.append(ref)
            values.append(sample.value)
    source.append(event.at, np.array(refs, dtype=np.int64), np.array(values, dtype=np.float64))


def _moment(files: Sequence[RuleFile], evaluator: Evaluator, at: Millis) -> _Moment:
    found: dict[str, list[float]] = {name: [] for name in _NAMES}
    for rule in (rule for file in files for group in file.groups for rule in group.rules):
        values = vector_of(evaluator.instant(rule.expr, at))
        found[rule.name] += [float(value) for _, value in values.samples()]
    prompt, decode, gap, running, finished = (found[name] for name in _NAMES)
    return _Moment(
        prompt=_sum(prompt),
        decode=_sum(decode),
        gap=_sum(gap) / len(gap) if gap else math.nan,
        running=_sum(running),
        finished=_sum(finished),
    )


def _demand(moments: list[_Moment], where: str) -> Demand | Unread:
    seconds = _STEP / 1000
    finished = seconds * _sum(each.finished for each in moments)
    prompts = seconds * _sum(each.prompt for each in moments)
    written = seconds * _sum(each.decode for each in moments)
    gaps = sorted(each.gap for each in moments if each.gap > 0 and each.decode > 0)
    if finished < 1 or not prompts or not written or not gaps:
        return Unread(where, "no request ends in it with a prompt and an answer", "prefill")
    quiet = _quantile(gaps, _QUIET)
    spent = seconds * _sum(1 - quiet / each.gap for each in moments if each.gap > quiet)
    running = sorted(each.running for each in moments if each.running > 0)
    return Demand(
        where=where,
        prompt=max(1, round(prompts / finished)),
        decode=max(1, round(written / finished)),
        batch=round(_quantile(running, _BUSY)) if running else None,
        rate=finished / (seconds * len(moments)),
        quiet_s=quiet,
        prefill_s=spent / prompts if spent > 0 else None,
    )


def _sum(values: Iterable[float]) -> float:
    return math.fsum(value for value in values if math.isfinite(value))


def _quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
