"""When a target is probed, and what the probes say of it: pure state, the clock an argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from enginewatch.collect.probe_dialect import Result
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample

_LONGEST_PAUSE: Final = 6
"""Intervals between probes of a target that does not answer: each may stay in its queue."""


class Step(Enum):
    WAIT = "wait"
    SKIP = "skip"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class Ended:
    """A probe that is over. `duration` is in seconds, `status` 0 where there was none."""

    result: Result
    duration: float
    status: int = 0
    health: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one target.

    `sent` is when the newest probe was, and `flying` whether it is still out.
    `silent_since` is when the first of the probes was sent that had no answer since.
    """

    sent: Millis | None = None
    flying: bool = False
    skipping: bool = False
    silent_since: Millis | None = None
    silent: int = 0
    last: Ended | None = None
    probes: int = 0
    late: int = 0
    skipped: int = 0

    def step(self, now: Millis, interval: Millis, *, alive: bool) -> Step:
        """What to do now. `alive`: the target's own traffic proves progress."""
        if self.flying:
            return Step.WAIT
        if alive:
            return Step.SKIP
        if self.sent is None or self.skipping:
            return Step.SEND
        # One that did not answer is asked again at once, so that a single slow answer is not
        # taken for a hang; after that more and more seldom.
        pauses = min(2 ** max(self.silent - 2, 0), _LONGEST_PAUSE) if self.silent != 1 else 0
        if self.last is not None and self.last.result is Result.UNSUPPORTED:
            pauses = 2 * _LONGEST_PAUSE
        # A clock that was set back must not put the next probe off.
        return Step.SEND if not 0 <= now - self.sent < pauses * interval else Step.WAIT

    def after_skip(self) -> Standing:
        """Traffic has proved progress: whatever was silent before is not any more."""
        skipped = self.skipped + (not self.skipping)
        return replace(self, skipping=True, silent_since=None, silent=0, last=None, skipped=skipped)

    def after_send(self, now: Millis) -> Standing:
        return replace(self, sent=now, flying=True, skipping=False, probes=self.probes + 1)

    def sent_at(self, now: Millis) -> Standing:
        """The probe had to wait for its turn, and left only now."""
        return replace(self, sent=now)

    def after_end(self, ended: Ended) -> Standing:
        done = replace(self, flying=False, last=ended)
        if ended.result is not Result.DEADLINE:
            return replace(done, silent_since=None, silent=0)
        since = self.sent if self.silent_since is None else self.silent_since
        return replace(done, silent_since=since, silent=self.silent + 1, late=self.late + 1)

    def silence(self, now: Millis) -> Millis | None:
        """For how long a probe has been without an answer; None where none can be expected."""
        since = self.silent_since
        if since is None and self.flying:
            since = self.sent
        if since is not None:
            return max(0, now - since)
        if self.last is None:
            return 0 if self.skipping else None
        return 0 if self.last.result in _LIVING else None

    def samples(self, target: Labels, now: Millis, age: Millis | None = None) -> Iterator[Sample]:
        """All that is to be said at `now`, under the labels of the target.

        `age` is for how long the target's pages have shown nothing to move, if they can.
        What is not known is left out.
        """
        if age is not None:
            yield _sample(target, "progress_age_seconds", age / 1000)
        for name, value in self._values(now):
            yield _sample(target, name, value)

    def _values(self, now: Millis) -> Iterator[tuple[str, float]]:
        yield "skipped", self.skipping
        yield "sent_total", self.probes
        yield "deadline_exceeded_total", self.late
        yield "skips_total", self.skipped
        silence = self.silence(now)
        if silence is not None:
            yield "unanswered_seconds", silence / 1000
        if self.last is None:
            return
        yield "success", self.last.result is Result.ANSWERED
        yield "refused", self.last.result is Result.REFUSED
        yield "duration_seconds", self.last.duration
        yield "http_status", self.last.status
        if self.last.health is not None:
            yield "health_status", self.last.health


_LIVING: Final = frozenset({Result.ANSWERED, Result.BUSY, Result.FAILING, Result.REFUSED})


def _sample(target: Labels, name: str, value: float) -> Sample:
    return Sample(target.with_(**{METRIC_NAME: f"enginewatch_probe_{name}"}), float(value))
