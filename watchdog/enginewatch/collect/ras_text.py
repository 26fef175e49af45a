"""NCCL's account of a job as text, as `VERBOSE STATUS` gives it.

Source: NVIDIA/nccl, src/ras/client_support.cc at 12df1a11 (2.31) and a copy of 2.28.3; where
2.24 and 2.25 differ, NCCL's user guide and a copy of 2.25's. Real text has been seen
of a healthy job of one rank only (2.28.9): what it says of faults is read by the source.

Three parts: a table with one line for each group of communicators that are alike,
`Errors`, and `Warnings`. In the last two a paragraph begins with what it is about:
`DEAD`, `INCOMPLETE` and `TIMEOUT` of the job, or `#GROUP-NUMBER (HASH) FAULT`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from enginewatch.collect.ras_report import (
    Apart,
    Communicator,
    Fault,
    Level,
    Lost,
    Member,
    Process,
    RasError,
    Reason,
    Report,
    Status,
)
from enginewatch.model import compile_re2

_VERSION: Final = re.compile(r"^NCCL version (\S+)", re.ASCII | re.MULTILINE)
_TOOK: Final = re.compile(r"^Communicators\.\.\. \((\d+\.\d+)s\)", re.ASCII | re.MULTILINE)
_EVEN: Final = re.compile(
    r"^\(total\) +per node.*\n +\d+ +\d+ +\d+ +(\d+)", re.ASCII | re.MULTILINE
)
_UNEVEN: Final = re.compile(r"^\(total\) +\(total\).*\n +\d+ +(\d+)", re.ASCII | re.MULTILINE)
_GROUP: Final = re.compile(
    r"^ *(\d+) +(\d+) +\d+ +[\d-]+ +(\d+) +\d+ +([A-Z]+) +([A-Z,]+)$", re.ASCII | re.MULTILINE
)
_ERRORS: Final = "\nErrors\n======\n"
_WARNINGS: Final = "Warnings\n========\n"
_HEAD: Final = re.compile(r"(?:#(\d+)-\d+ \(([0-9a-f]+)\) )?([A-Z]+)", re.ASCII)
_NUMBER: Final = re.compile(r"(\d+) (?:communication timeout|job process|rank)", re.ASCII)
_PROCESS: Final = re.compile(r"Process (\d+) on node (\S+) managing GPU", re.ASCII)
_MEMBER: Final = compile_re2(
    r"^Rank (?P<rank>\d+)(?P<says>| reported [^-]+| has .+) -- "
    r"(?:GPU (?P<gpu>\d+(?: \(NVML \d+\))?) managed by process (?P<pid>\d+) on node (?P<node>\S+)"
    r"|\[process information not found\])$"
)
_OLD_MISSING: Final = re.compile(r"The missing ranks?: ([\d,]+)", re.ASCII)
_APART: Final = re.compile(r"Communicator ranks have different (\w+) operation counts", re.ASCII)
_LAUNCHED: Final = re.compile(r"launched up to operation (\d+)", re.ASCII)
_NONE_LAUNCHED: Final = "not launched any operations"
_RANKS: Final = re.compile(r"(\d+) ranks have ", re.ASCII)
_UNKNOWN: Final = "UNKNOWN"


def parse_text(text: str) -> Report:
    """Raises RasError for another text, and for one that ends before its warnings begin."""
    text = text.replace("\r\n", "\n")
    version = _VERSION.search(text)
    if version is None:
        raise RasError(Reason.UNREADABLE, "no account of NCCL's: it names no version")
    body, warned, warnings = text.partition(_WARNINGS)
    head, _, errors = body.partition(_ERRORS)
    if not warned:
        raise RasError(Reason.CUT_OFF, "the account ends before its warnings")
    groups = [_Group(*match.groups()) for match in _GROUP.finditer(head)]
    paragraphs = [*_paragraphs(errors), *_paragraphs(warnings)]
    job = {each.fault: each for each in paragraphs if each.group is None}
    dead = frozenset(job["DEAD"].processes()) if "DEAD" in job else frozenset()
    took, processes = _TOOK.search(head), _EVEN.search(head) or _UNEVEN.search(head)
    numbers = {fault: paragraph.number for fault, paragraph in job.items()}
    all_dead = bool(numbers.get("DEAD")) and not numbers.get("INCOMPLETE")
    return Report(
        version=version[1],
        format="text",
        groups=_counted(groups),
        communicators=tuple(_communicators(groups, paragraphs, dead, all_dead=all_dead)),
        processes=int(processes[1]) if processes else None,
        dead=numbers.get("DEAD", 0),
        unresponsive=numbers.get("INCOMPLETE", 0),
        timeouts=numbers.get("TIMEOUT", 0),
        seconds=float(took[1]) if took else 0.0,
    )


class _Group(NamedTuple):
    """A line of the table, as it stands there."""

    number: str
    comms: str
    size: str
    status: str
    errors: str

    @property
    def faults(self) -> frozenset[Fault]:
        known = {fault.name: fault for fault in Fault}
        return frozenset(known[name] for name in self.errors.split(",") if name in known)


class _Paragraph(NamedTuple):
    """`group` and `name` are None where it is about the job as a whole."""

    group: str | None
    name: str | None
    fault: str
    lines: tuple[str, ...]

    @property
    def number(self) -> int:
        found = _NUMBER.search("\n".join(self.lines))
        return int(found[1]) if found else 0

    def processes(self) -> Iterator[Process]:
        for line in self.lines:
            if match := _PROCESS.match(line):
                yield Process(int(match[1]), match[2])


def _paragraphs(text: str) -> Iterator[_Paragraph]:
    """A line that is not indented begins one; blank lines within it mean nothing."""
    head: Any = None
    lines: list[str] = []
    for line in (*text.splitlines(), "END"):
        if not line.startswith(" ") and line:
            if head is not None:
                yield _Paragraph(head[1], head[2], head[3], tuple(lines))
            head, lines = _HEAD.fullmatch(line), []
        elif line.strip():
            lines.append(line.strip())


def _status(word: str) -> Status:
    if word == _UNKNOWN:
        return Status.NOCOMM
    try:
        return Status[word]
    except KeyError:
        raise RasError(Reason.UNREADABLE, f"no status of a communicator: {word}") from None


def _counted(groups: Iterable[_Group]) -> Counter[tuple[Status, frozenset[Fault]]]:
    found: Counter[tuple[Status, frozenset[Fault]]] = Counter()
    for group in groups:
        found[_status(group.status), group.faults] += int(group.comms)
    return found


def _communicators(
    groups: Iterable[_Group],
    paragraphs: Iterable[_Paragraph],
    dead: frozenset[Process],
    *,
    all_dead: bool,
) -> Iterator[Communicator]:
    """Those that a paragraph is about, each with all its faults."""
    known = {group.number: group for group in groups}
    found: dict[str, Communicator] = {}
    for each in paragraphs:
        group = known.get(each.group or "")
        if group is None or each.name is None:
            continue
        blank = Communicator(each.name, int(group.size), _status(group.status), group.faults)
        before = found.get(each.name, blank)
        if each.fault == "INCOMPLETE":
            lost = tuple(_lost(each.lines, dead, all_dead=all_dead))
            found[each.name] = replace(before, lost=lost, lost_ranks=max(each.number, len(lost)))
        elif each.fault == "ERROR":
            found[each.name] = replace(before, errors=each.lines)
        elif each.fault == "MISMATCH":
            found[each.name] = replace(before, apart=tuple(_apart(each.lines)))
    yield from found.values()


def _lost(lines: Iterable[str], dead: frozenset[Process], *, all_dead: bool) -> Iterator[Lost]:
    for line in lines:
        if match := _MEMBER.search(line):
            member = _member(match)
            yield Lost(member, all_dead if member.process is None else member.process in dead)
        elif match := _OLD_MISSING.match(line):
            for rank in match[1].split(","):
                yield Lost(Member(int(rank)), all_dead)


def _apart(lines: Iterable[str]) -> Iterator[Apart]:
    """A heading for each operation, and below it how many ranks have launched how many."""
    operation, levels = "", list[Level]()
    for line in lines:
        heading = _APART.match(line)
        if heading or line.startswith("Communicator ranks have"):
            if levels:
                yield Apart(operation, tuple(levels))
            operation, levels = heading[1] if heading else "", []
        elif operation:
            _read_level(line, levels)
    if levels:
        yield Apart(operation, tuple(levels))


def _read_level(line: str, levels: list[Level]) -> None:
    member = _MEMBER.search(line)
    ranks = _RANKS.match(line)
    launched = _LAUNCHED.search(line)
    if (launched or _NONE_LAUNCHED in line) and (ranks or member):
        members = (_member(member),) if member else ()
        operations = int(launched[1]) if launched else 0
        levels.append(Level(operations, int(ranks[1]) if ranks else 1, members))
    elif member and levels:
        last = levels[-1]
        levels[-1] = last._replace(members=(*last.members, _member(member)))


def _member(match: Any) -> Member:
    said = match.groupdict()
    if said["pid"] is None:
        return Member(int(said["rank"]))
    return Member(int(said["rank"]), said["gpu"], Process(int(said["pid"]), said["node"]))
