"""Asks engines a baseline's tasks while they serve, and keeps the tests of their answers.

In batches whose tasks are drawn at random, and so of mixed lengths, all asked at once: some
faults show only beside other requests. Never where `engine:saturated:bool` says that an
engine has enough to do (rules/hazards/quality_collapse.yml), and within a budget of tokens.
A batch that has to wait is kept, not drawn anew: leaving out the dear ones would be a choice.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import httpx

from enginewatch.canary.baseline import Answer, Known, read_baseline
from enginewatch.canary.decision import shipped_decision
from enginewatch.canary.panel import Panel, Taken
from enginewatch.canary.shown import shown
from enginewatch.collect.base import Write
from enginewatch.collect.canary_ask import Asker, Logprobs, Questions, Unanswered, ask_all
from enginewatch.collect.canary_budget import Budget
from enginewatch.collect.canary_state import CanaryState
from enginewatch.collect.discovery import Following
from enginewatch.collect.probe_progress import key_of
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import CanaryConfig, Config
from enginewatch.errors import EnginewatchError
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, Millis, Sample
from enginewatch.revive import keep_running
from enginewatch.store.base import Storage

_log = logging.getLogger(__name__)

SATURATED: Final = "engine:saturated:bool"
VERDICT: Final = "quality_collapse"
_FRESH: Final[Millis] = 60_000
_TICK: Final = 0.5
_TOLD: Final[Millis] = 5_000
"""How often the samples of an engine are written, whether or not anything was asked."""

T = TypeVar("T")

Transports = Callable[[ScrapeTarget], httpx.AsyncBaseTransport]


@dataclass
class _Watched:
    """One engine: what asks it, what judges it, and what was drawn for it."""

    target: ScrapeTarget
    settings: CanaryConfig
    asker: Asker
    panel: Panel
    budget: Budget
    fingerprint: str
    rng: random.Random
    answered: Millis
    """The newest answer, or when the asking began."""
    due: Millis
    drawn: list[Known] = field(default_factory=list)
    flight: asyncio.Task[None] | None = None
    written: Millis | None = None
    unanswered: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    problem: str = ""

    @property
    def labels(self) -> Labels:
        own = self.target.target.labels
        return own.with_(model=self.asker.model) if self.asker.model else own

    @property
    def cost(self) -> int:
        """Of the batch, about: the answer, and the prompt once more for its log-probability."""
        again = 1 if self.settings.logprobs in {"auto", "forced"} else 0
        return sum(each.task.tokens + again * len(each.task.prompt) // 4 for each in self.drawn)


class CanaryCollector:
    """Asks the engines of one configuration.

    Raises CanaryError for a baseline that can't be read.
    """

    def __init__(
        self,
        config: Config,
        storage: Storage,
        write: Write,
        *,
        clock: Callable[[], Millis],
        ring: EvidenceRing | None = None,
        transports: Transports | None = None,
        seed: str | None = None,
    ):
        self._storage: Final = storage
        self._write: Final = write
        self._clock: Final = clock
        self._ring: Final = EvidenceRing() if ring is None else ring
        self._transports: Final = transports
        self._seed: Final = seed or secrets.token_hex(8)
        self._sections: Final = tuple(each for each in config.canary if each.enabled)
        self._baselines: Final = tuple(read_baseline(each.baseline) for each in self._sections)
        self._fingerprints: Final = tuple(_fingerprint(each) for each in self._sections)
        self._state: Final = CanaryState(config.storage.path)
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="canary")
        self._watched: Final[dict[Labels, _Watched]] = {}
        self._following: Final = Following(config, lambda one: self._section(one) is not None)
        self._loop: asyncio.Task[None] | None = None
        self._closing: Final[set[asyncio.Task[None]]] = set()

    def start(self) -> None:
        self._loop = keep_running("canary", self._forever, pause=_TICK)

    async def stop(self) -> None:
        tasks = [each.flight for each in self._watched.values() if each.flight is not None]
        tasks += [self._loop] if self._loop is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for labels in tuple(self._watched):
            self._drop(labels)
        await asyncio.gather(*self._closing, return_exceptions=True)
        self._thread.submit(self._state.close)
        self._thread.shutdown()

    async def _forever(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_TICK)

    async def look(self) -> None:
        """Ask what is due now, and write down what is known."""
        now = self._clock()
        await self._follow(now)
        saturated = self._saturated(now)
        for each in self._watched.values():
            if each.flight is not None and each.flight.done():
                each.flight = None
            if each.flight is None and now >= each.due:
                self._advance(each, now, saturated)
            if each.written is None or not 0 <= now - each.written < _TOLD:
                self._tell(each, now)

    def _advance(self, each: _Watched, now: Millis, saturated: set[tuple[str, str]]) -> None:
        if not each.drawn:
            each.drawn = [each.panel.draw(each.rng) for _ in range(each.settings.batch)]
        each.due = now + each.settings.interval
        if key_of(each.target.target.labels) in saturated:
            each.skipped["saturated"] += 1
        elif not each.budget.allows(each.cost, now):
            each.skipped["budget"] += 1
        else:
            each.flight = asyncio.ensure_future(self._fly(each))

    async def _fly(self, each: _Watched) -> None:
        drawn, each.drawn = each.drawn, []
        before = each.asker.spent
        tasks = [known.task for known in drawn]
        try:
            answers = await ask_all(each.asker, tasks, len(tasks))
        except EnginewatchError as failure:
            each.unanswered["refused"] += 1
            self._report(each, str(failure))
            return
        finally:
            each.budget.spend(each.asker.spent - before, self._clock())
        problem = ""
        for known, answer in zip(drawn, answers, strict=True):
            if isinstance(answer, Unanswered):
                each.unanswered[answer.result] += 1
                problem = problem or f"{answer.result}: {answer.problem}"
                continue
            each.answered = self._clock()
            taken = each.panel.take(known.task.id, answer)
            self._witness(each, known, answer, taken)
        self._report(each, problem)
        self._tell(each, self._clock())
        await self._save(each)

    def _witness(self, each: _Watched, known: Known, answer: Answer, taken: Taken) -> None:
        """Keep what speaks for a loss, to be told with it; log what changed."""
        for change in taken.changes:
            what = "is worse than its baseline" if change.began else "is as its baseline again"
            where = each.target.target.url
            _log.warning("%s %s: %s, %s", where, what, change.test, change.family)
        lost = answer.passed is False and known.rate == 1.0
        if not lost and not taken.faults:
            return
        before = known.answers[0].text
        kinds = f" ({', '.join(sorted(taken.faults))})" if taken.faults else ""
        text = f"{shown(known.task.id, 80)}: baseline: {shown(before, 80)}"
        said = f"{text} | now{kinds}: {shown(answer.text, 80)}"
        evidence = Evidence("canary", 0, said)
        self._ring.add(VERDICT, each.target.target.labels, evidence, self._clock())

    def _tell(self, each: _Watched, now: Millis) -> None:
        own = each.labels
        samples = [
            Sample(Labels({**own, **sample.labels}), sample.value)
            for sample in (*each.panel.samples(), *_of_asking(each, now))
        ]
        self._write(_key(each.target.target.labels), now, samples)
        each.written = now

    def _report(self, each: _Watched, problem: str) -> None:
        """Log what changed, once."""
        if problem != each.problem:
            each.problem = problem
            level = logging.WARNING if problem else logging.INFO
            text = problem or "answers again"
            _log.log(level, "%s: canary: %s", each.target.target.url, text)

    def _saturated(self, now: Millis) -> set[tuple[str, str]]:
        """The targets, by instance and job, that have enough to do. Where nothing is known of an
        engine's load, as no page tells of it, it is asked."""
        matchers = (Matcher(METRIC_NAME, MatchOp.EQUAL, SATURATED),)
        found = self._storage.instant(matchers, now, _FRESH)
        return {
            key_of(labels)
            for labels, there, value in zip(
                found.layout.labels, found.present.tolist(), found.values.tolist(), strict=True
            )
            if there and value > 0
        }

    async def _follow(self, now: Millis) -> None:
        """Ask what is configured now."""
        changes = self._following.look(now, self._watched)
        for labels in changes.gone:
            self._drop(labels)
        for target in changes.new:
            self._watched[target.target.labels] = await self._new(target, now)

    def _section(self, target: ScrapeTarget) -> int | None:
        """Which section is for a target: the first that names its job, or names none."""
        for place, section in enumerate(self._sections):
            if not section.jobs or target.job.job_name in section.jobs:
                return place
        return None

    async def _new(self, target: ScrapeTarget, now: Millis) -> _Watched:
        place = self._section(target)
        assert place is not None
        settings, baseline = self._sections[place], self._baselines[place]
        questions = Questions(
            settings.model,
            baseline.chat,
            Logprobs(settings.logprobs),
            settings.timeout / 1000,
            settings.port,
            settings.body,
        )
        transport = None if self._transports is None else self._transports(target)
        panel = Panel(baseline, shipped_decision(), settings.accept_drop)
        each = _Watched(
            target,
            settings,
            Asker(target, questions, transport=transport),
            panel,
            Budget(settings.tokens_per_hour, now),
            self._fingerprints[place],
            random.Random(f"{self._seed}/{target.target.labels}"),  # noqa: S311 - not a secret
            now,
            now + target.offset % settings.interval,
        )
        saved = await self._in_thread(lambda: self._state.load(_name(target), each.fingerprint))
        if saved is not None:
            try:
                panel.restore(saved)
            except (KeyError, TypeError, ValueError) as failure:
                _log.error("%s: the canary begins anew: %r", target.target.url, failure)
                each.panel = Panel(baseline, shipped_decision(), settings.accept_drop)
        return each

    async def _save(self, each: _Watched) -> None:
        state = each.panel.to_json()
        name = _name(each.target)
        await self._in_thread(lambda: self._state.save(name, each.fingerprint, state))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _drop(self, labels: Labels) -> None:
        each = self._watched.pop(labels)
        if each.flight is not None:
            each.flight.cancel()
        self._write(_key(labels), self._clock(), ())
        closing = asyncio.ensure_future(each.asker.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _of_asking(each: _Watched, now: Millis) -> Iterator[Sample]:
    """What is known beside the answers: what it cost, and what was in the way."""
    yield _sample("tokens_total", each.asker.spent)
    yield _sample("tokens_left", each.budget.left(now))
    yield _sample("last_answer_timestamp_seconds", each.answered / 1000)
    for reason in ("saturated", "budget"):
        yield _sample("skipped_batches_total", each.skipped[reason], reason=reason)
    for result, count in sorted(each.unanswered.items()):
        yield _sample("unanswered_total", count, result=result)


def _sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(Labels(labels, **{METRIC_NAME: f"enginewatch_canary_{name}"}), float(value))


def _fingerprint(section: CanaryConfig) -> str:
    """Of all that evidence depends on."""
    told = hashlib.sha256(Path(section.baseline).read_bytes())
    told.update(repr((shipped_decision(), section.accept_drop)).encode())
    return told.hexdigest()


def _name(target: ScrapeTarget) -> str:
    labels = target.target.labels
    return "\n".join(f"{name}={labels[name]}" for name in sorted(labels))


def _key(labels: Labels) -> tuple[str, Labels]:
    return "canary", labels
