"""What becomes of a scrape: samples under the target's labels, and the report on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from enginewatch.exposition import PageError, PageLayout, PageReader, Reading
from enginewatch.model import METRIC_NAME, Labels, Metadata
from enginewatch.recording import ScrapeEvent
from enginewatch.store.base import FloatArray, IntArray
from enginewatch.store.source import Source

_REPORT: Final = (
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_series_added",
)
SCRAPE_ERROR: Final = "enginewatch_scrape_error"
"""1 while the last scrape of a target failed, by the label `reason`."""

_EXPORTED: Final = "exported_"
_NO_REFS: Final[IntArray] = np.empty(0, np.int64)
_NO_VALUES: Final[FloatArray] = np.empty(0)


class Outcome(NamedTuple):
    """How a scrape went. `error` is why there are no samples, `reason` the same in a word
    (`model.ScrapeFailure`); `warning` is what is odd about the samples."""

    error: str = ""
    warning: str = ""
    samples: int = 0
    added: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the series of a layout go: `refs[i]` is the ref of its series number `picks[i]`."""

    picks: IntArray
    refs: IntArray


class Ingest:
    """Writes the scrapes of one target to its source.

    The same for a live target and a recorded one: the time is the scrape's. A
    sample has that time whatever timestamp the page gives it, because a rule on
    what an engine does now must see what it said now. A series that was on the
    last page and is not on this one ends, and after a failed scrape all do: the
    store sees to that when it is given a round without them.
    """

    def __init__(
        self,
        labels: Labels,
        source: Source,
        reader: PageReader,
        *,
        honor_labels: bool = False,
        wanted: Callable[[str], bool] = lambda _: True,
        describe: Callable[[Mapping[str, Metadata]], None] = lambda _: None,
    ):
        """`wanted` spares series that the store would not keep the merging of labels;
        `describe` is told what each new layout says of its metric families."""
        self._target: Final = dict(labels)
        self._source: Final = source
        self._reader: Final = reader
        self._honor_labels: Final = honor_labels
        self._wanted: Final = wanted
        self._describe: Final = describe
        self._columns: WeakKeyDictionary[PageLayout, _Columns] = WeakKeyDictionary()
        self._report = _Columns(_NO_REFS, _NO_REFS)
        self._epoch: int | None = None
        self._last: PageLayout | None = None

    def take(self, event: ScrapeEvent) -> Outcome:
        """Write one scrape, whether it brought a page or an error."""
        reading, error, reason = None, event.error, event.reason
        if event.body is not None and not error:
            try:
                reading = self._reader.read(event.body, event.content_type)
            except PageError as failure:
                error, reason = str(failure), failure.reason
        if self._epoch != self._source.epoch:
            self._forget()
        samples = added = 0
        refs, values = self._error(reason) if error else (_NO_REFS, _NO_VALUES)
        if reading is not None:
            samples, added = reading.layout.samples, self._added(reading.layout)
            columns = self._columns_of(reading.layout)
            refs, values = columns.refs, reading.values[columns.picks]
        report = np.array([reading is not None, event.duration, samples, added], np.float64)
        # The report comes first: of two samples of a series the first counts, and a page
        # that has an `up` of its own must not pass for it.
        result = self._source.append(
            event.at,
            np.concatenate((self._report.refs, refs)),
            np.concatenate((report[self._report.picks], values)),
        )
        warning = _warning(reading, result.duplicate) if reading is not None else ""
        return Outcome(error, warning, samples, added, reason)

    def _error(self, reason: str) -> tuple[IntArray, FloatArray]:
        """`enginewatch_scrape_error`, which ends with the next scrape that goes well."""
        labels = Labels({METRIC_NAME: SCRAPE_ERROR, "reason": reason, **self._target})
        ref = self._source.resolve(labels)
        return (_NO_REFS, _NO_VALUES) if ref is None else (np.array([ref]), np.ones(1))

    def _forget(self) -> None:
        """Start anew with refs: the store no longer stands by those it gave."""
        self._epoch = self._source.epoch
        self._columns.clear()
        names = [Labels({METRIC_NAME: name, **self._target}) for name in _REPORT]
        self._report = self._resolve(dict(enumerate(names)))

    def _columns_of(self, layout: PageLayout) -> _Columns:
        columns = self._columns.get(layout)
        if columns is None:
            names = set(filter(self._wanted, set(layout.names)))
            wanted = [i for i, name in enumerate(layout.names) if name in names]
            columns = self._resolve({i: self._merged(layout.series(i)) for i in wanted})
            self._columns[layout] = columns
            self._describe(layout.metadata)
        return columns

    def _resolve(self, series: Mapping[int, Labels]) -> _Columns:
        refs = {index: self._source.resolve(labels) for index, labels in series.items()}
        found = {index: ref for index, ref in refs.items() if ref is not None}
        return _Columns(
            np.fromiter(found.keys(), np.int64, len(found)),
            np.fromiter(found.values(), np.int64, len(found)),
        )

    def _merged(self, exposed: Mapping[str, str]) -> Labels:
        return merge_labels(exposed, self._target, honor=self._honor_labels)

    def _added(self, layout: PageLayout) -> int:
        """How many series the last good page did not have."""
        last, self._last = self._last, layout
        if last is layout:
            return 0
        return len(layout) if last is None else len(layout.keys() - last.keys())


def merge_labels(exposed: Mapping[str, str], target: Mapping[str, str], *, honor: bool) -> Labels:
    """A series' labels with its target's, conflicts settled as Prometheus settles them.

    With `honor` the page wins. Otherwise the target does, and the page's label is
    kept under a name with `exported_` before it, as often as it takes to be unique.
    None of the page's labels may be empty.
    """
    if honor:
        return Labels({**target, **exposed})
    merged = {**exposed, **target}
    conflicts = [name for name in target if name in exposed]
    for name in sorted(conflicts, key=len):
        renamed = _EXPORTED + name
        while renamed in merged:
            renamed = _EXPORTED + renamed
        merged[renamed] = exposed[name]
    return Labels(merged)


def _warning(reading: Reading, collisions: int) -> str:
    if not reading.layout.samples:
        return "the page has no samples"
    duplicates = reading.layout.duplicates + collisions
    if duplicates:
        return f"{duplicates} samples of series that the page already had; the first was kept"
    return ""
