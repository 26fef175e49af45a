"""A recording judged again, in the time of the recording: which alerts, and when.

The clock is an argument everywhere below, so ten recorded minutes take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from enginewatch.alerting.events import AlertChange
from enginewatch.alerting.judge import Judge, Settings
from enginewatch.alerting.rules import RuleFile
from enginewatch.collect.ingest import Ingest, merge_labels
from enginewatch.collect.rounds import Writers
from enginewatch.exposition import PageReader, parse_page
from enginewatch.model import Labels, Millis, Sample, Target
from enginewatch.notify.route import for_machines
from enginewatch.recording import Event, NoteEvent, SamplesEvent, ScrapeEvent

Told = AlertChange | NoteEvent
"""What a replay has to say: a change of an alert, or a note that the recording holds."""


class Replay:
    """Feeds recorded scrapes to the rules as the daemon would, had it scraped then."""

    def __init__(self, files: Iterable[RuleFile], settings: Settings | None = None):
        self._ingests: dict[Labels, Ingest] = {}
        self._targets: tuple[Target, ...] = ()
        self.judge: Final = Judge(files, lambda: self._targets, settings or Settings())
        self._rounds: Final = Writers(self.judge.head)
        self._now: Millis | None = None

    def run(self, events: Iterable[Event]) -> Iterator[Told]:
        """The changes and notes in order of time; the rules see each tick after its scrapes.

        What says that the daemon works is left out: here is none.
        """
        for event in events:
            yield from self._advance(event.at)
            if isinstance(event, ScrapeEvent):
                self._ingest(event)
            elif isinstance(event, SamplesEvent):
                self._write(event)
            else:
                yield event
        if self._now is not None:
            yield from self._advance(self._now + 1)

    def _advance(self, upto: Millis) -> Iterator[Told]:
        """Evaluate at every tick before `upto` that has not been evaluated yet."""
        tick = self.judge.tick
        if self._now is None:
            self._now = -(-upto // tick) * tick
        while self._now < upto:
            changes = self.judge.evaluate(self._now).changes
            yield from (each for each in changes if not for_machines(each.alert.labels))
            self._now += tick

    def _write(self, event: SamplesEvent) -> None:
        """A round of a collector; like a page's, its samples carry the target's labels.

        Raises PageError for samples that can't be read.
        """
        labels = target_labels(event.labels)
        samples = (
            Sample(merge_labels(each.labels, labels, honor=False), each.value)
            for each in parse_page(event.body).samples
        )
        self._rounds((event.source, labels), event.at, samples)

    def _ingest(self, event: ScrapeEvent) -> None:
        ingest = self._ingests.get(event.labels)
        if ingest is None:
            labels = target_labels(event.labels)
            self._targets = (*self._targets, Target("", labels))
            ingest = self._ingests[event.labels] = Ingest(
                labels,
                self.judge.head.source(("target", labels)),
                PageReader(),
                wanted=self.judge.retention.wants,
                describe=self.judge.head.update_metadata,
            )
        ingest.take(event)


def target_labels(recorded: Labels) -> Labels:
    """The recorded target's labels with what every target has: instance, job, deployment."""
    job = recorded.get("job") or "recording"
    defaults = {"instance": "recording", "job": job, "deployment": job}
    return Labels({**defaults, **recorded})


def between(events: Iterable[Event], start: Millis, end: Millis | None) -> Iterator[Event]:
    """The events whose time, counted in ms from the first event, is `start <= t < end`."""
    first: Millis | None = None
    for event in events:
        if first is None:
            first = event.at
        since = event.at - first
        if since >= start and (end is None or since < end):
            yield event
