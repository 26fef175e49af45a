"""Reads inputs into what can be judged: matches, facts, and series with their times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from enginewatch.evidence.answers import Answer, answers_of, measured
from enginewatch.evidence.assemble import Fact
from enginewatch.evidence.documents import CONTEXT, DocumentKind
from enginewatch.evidence.incident import Seen
from enginewatch.evidence.pack import SignaturePack
from enginewatch.evidence.pages import Scrape, previous_scrape, read_page
from enginewatch.evidence.reader import MOST_A_SECOND, LogReader, Match
from enginewatch.evidence.redact import redact
from enginewatch.evidence.segments import Document, Exchange, LogLine, PageText, Segmenter
from enginewatch.evidence.timeline import Rules, Timeline
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Labels, Millis, Sample

_MOST_DOCUMENTS: Final = 10_000
_MOST_VALUES: Final = 1_000
"""Of a JSON list, the values that are looked at."""
_MOST_SAMPLES: Final = 200_000
_SHOWN: Final = 400
_PAGE_STEP: Final[Millis] = 15_000
"""Between pages that give no time: the interval that most servers are scraped at."""
_END: Final = "enginewatch_evidence_end"
"""Stands at the last time of a timeline, so that rules can ask what still holds there."""
_RANK_FILE: Final = re.compile(r"rank\d{1,5}\.engine")
_CONTEXT_SERIES: Final = "enginewatch_context_"


class Input(NamedTuple):
    """One source: a name to show, and its lines without their ends."""

    name: str
    lines: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that judges: signatures and verdicts, kinds of documents, rules."""

    pack: SignaturePack
    kinds: Sequence[DocumentKind]
    rules: Rules


class Gathering:
    """What the inputs hold, so far. Memory is bounded however long they are."""

    def __init__(self, known: Knowledge, context: Mapping[str, Any], year: int):
        self.known: Final = known
        self.context: Final = context
        self.year: Final = year
        self.seen: Final = Seen({name: rule.gap for name, rule in known.pack.verdicts.items()})
        self.facts: Final[list[Fact]] = []
        self.notes: Final[list[str]] = []
        self.samples: Final[list[Sample]] = []
        self._sources: Final[list[_Source]] = []
        self._answers: Final[list[tuple[Answer, Evidence]]] = []
        self._lines: Final[dict[str, Evidence]] = {}
        self._documents = 0
        kind = next((each for each in known.kinds if each.id == CONTEXT), None)
        if kind is not None and context:
            fields = kind.read(context)
            self.samples.extend(kind.samples(fields))
            self.facts.append(Fact({}, fields, kind.feeds))
        self.samples.extend(_rank_files(context.get("files")))

    def read(self, one: Input) -> None:
        """Read an input to its end."""
        source = _Source(self, one.name)
        for segment in Segmenter().split(one.lines):
            match segment:
                case LogLine(number=number, raw=raw):
                    source.line(number, raw)
                case PageText():
                    source.page(segment)
                case Document(number=number):
                    if not self._document(segment, one.name):
                        source.line(number, _one_line(segment).encode("utf-8", "replace"))
                case Exchange(number=number, path=path, status=status):
                    source.line(number, f'"GET {path} HTTP/1.1" {status}'.encode())
        source.finish()
        self._sources.append(source)

    def timelines(self) -> Iterator[Timeline]:
        """All that can be judged as series."""
        for source in self._sources:
            yield from source.timelines()
        yield self._document_timeline()

    def _document(self, document: Document, source: str) -> bool:
        """Take in a JSON value; False where it is of no known kind."""
        self._documents += 1
        if self._documents > _MOST_DOCUMENTS:
            return True
        evidence = _shown(document, source)
        answers = list(answers_of(document.value))
        if answers:
            self._answers.extend((answer, evidence) for answer in answers)
            return True
        is_list = isinstance(document.value, list)
        values = document.value[:_MOST_VALUES] if is_list else [document.value]
        known = False
        for value in values:
            for kind in self.known.kinds:
                if kind.fits(value):
                    known = True
                    fields = kind.read(value)
                    self.facts.append(Fact(fields, kind.derived, kind.feeds))
                    self._add_samples(kind.samples(fields), evidence)
        if document.path:
            form = "list" if is_list else "object"
            labels = Labels(path=document.path, form=form, __name__="enginewatch_exchange_json")
            self._add_samples([Sample(labels, float(len(values)))], evidence)
        return known

    def _add_samples(self, samples: Iterable[Sample], evidence: Evidence) -> None:
        line = f"{evidence.source}:{evidence.line}"
        self._lines[line] = evidence
        self.samples.extend(Sample(s.labels.with_(line=line), s.value) for s in samples)

    def _document_timeline(self) -> Timeline:
        """What configurations, answers and the context say, at one time."""
        timeline = Timeline("documents")
        for sample in measured([answer for answer, _ in self._answers]):
            self._add_samples([sample], self._answers[int(sample.labels["answer"]) - 1][1])
        timeline.lines.update(self._lines)
        if self.samples:
            timeline.add("documents", 0, self.samples)
        return timeline


class _Source:
    """One input on its way into the gathering."""

    def __init__(self, gathering: Gathering, name: str):
        self._gathering: Final = gathering
        self._name: Final = name
        self._reader: Final = LogReader(gathering.known.pack.signatures, name, year=gathering.year)
        self._log: Final = Timeline(name)
        self._own: Final[dict[Labels, Labels]] = {}
        self._newest: Final[dict[Labels, Millis]] = {}
        self._scrapes: Final[dict[Labels, list[Scrape]]] = {}

    def line(self, number: int, raw: bytes) -> None:
        self._reader.skip_to(number)
        self._take(self._reader.feed(raw))

    def page(self, text: PageText) -> None:
        scrape = read_page(text, self._name, self._gathering.notes)
        self._scrapes.setdefault(text.labels, []).append(scrape)

    def finish(self) -> None:
        self._take(self._reader.finish())
        if self._reader.cut:
            what = f"{self._reader.cut} lines were cut: longer than 64 KiB"
            self._gathering.notes.append(f"{self._name}: {what}")
        if self._reader.passed:
            what = f"{self._reader.passed_lines} lines of storms were counted but not read"
            self._gathering.notes.append(
                f"{self._name}: {what}: over {MOST_A_SECOND} a second of one kind"
            )

    def timelines(self) -> Iterator[Timeline]:
        if self._log.rounds:
            yield self._log_timeline()
        for labels, scrapes in self._scrapes.items():
            yield self._page_timeline(labels, scrapes)

    def _take(self, matches: Iterable[Match]) -> None:
        for match in matches:
            self._gathering.seen.add(match)
            if match.signature.series and len(self._log.rounds) < _MOST_SAMPLES:
                self._add_samples(match)

    def _add_samples(self, match: Match) -> None:
        stamp = match.line.stamp
        line = stamp.at if stamp and not stamp.boot else match.line.number * 1000
        evidence = match.evidence
        for sample in match.samples():
            labels = self._own.get(sample.labels)
            if labels is None:
                labels = sample.labels.with_(instance=self._name, job="log", deployment=self._name)
                self._own[sample.labels] = labels
            # Lines of one second come in an order, too.
            at = max(line, self._newest.get(labels, line - 1) + 1)
            self._newest[labels] = at
            self._log.add(labels, at, (Sample(labels, sample.value),), evidence)

    def _log_timeline(self) -> Timeline:
        end = max(self._newest.values())
        last = self._reader.last_stamp
        if last is not None and not last.boot:
            end = max(last.at, end)
        own = Labels(instance=self._name, job="log", deployment=self._name)
        evidence = Evidence(self._name, self._reader.number, "the log ends here")
        marks = [Sample(own.with_(__name__=_END), 1.0), *self._context(own)]
        self._log.add("end", end, marks, evidence)
        return self._log

    def _context(self, own: Labels) -> list[Sample]:
        """What the context says of the engine, as samples of this source."""
        return [
            Sample(sample.labels.with_(**own), sample.value)
            for sample in self._gathering.samples
            if sample.labels.name.startswith(_CONTEXT_SERIES)
        ]

    def _page_timeline(self, target: Labels, scrapes: Sequence[Scrape]) -> Timeline:
        timeline = Timeline(self._name)
        own = Labels({"instance": self._name, "job": "page", "deployment": self._name, **target})
        context = self._context(own)
        at = -_PAGE_STEP
        for scrape in (*previous_scrape(self._gathering.context, scrapes), *scrapes):
            at = scrape.at if scrape.at is not None else at + _PAGE_STEP
            where = Evidence(self._name, scrape.number, scrape.shown)
            timeline.add("page", at, scrape.labelled(own), where)
            timeline.add("scrape", at, scrape.about(own))
            if context:
                timeline.add("context", at, context)
        timeline.add("end", at, [Sample(own.with_(__name__=_END), 1.0)])
        return timeline


def _rank_files(names: object) -> Iterator[Sample]:
    """How many plans of ranks lie in the one folder that holds some; nothing where none does.

    A list of files that names no plan may be a list of what is text, and is no proof.
    """
    listed = names if isinstance(names, list | tuple) else ()
    plans = [path for path in map(PurePath, map(str, listed)) if _RANK_FILE.fullmatch(path.name)]
    if len({path.parent for path in plans}) == 1:
        yield Sample(Labels(__name__="enginewatch_target_rank_files"), float(len(set(plans))))


def _shown(document: Document, source: str) -> Evidence:
    return Evidence(source, document.number, redact(" ".join(document.text[:_SHOWN].split())))


def _one_line(document: Document) -> str:
    return json.dumps(document.value) if "\n" in document.text else document.text
