"""The shipped signatures and the table of verdicts, loaded and checked against each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.yamlnodes import Document, read_text
from enginewatch.errors import EnginewatchError
from enginewatch.evidence.casespec import CaseReader
from enginewatch.evidence.errors import SignatureError
from enginewatch.evidence.expressions import Expression
from enginewatch.evidence.fields import Value
from enginewatch.evidence.parse import SignatureParser
from enginewatch.evidence.signatures import Severity, Signature, SignatureSet
from enginewatch.evidence.tables import Table, load_table
from enginewatch.model import Millis
from enginewatch.rulepack import rules_path
from enginewatch.yamltext import closest

VERDICT_FILE: Final = "verdicts.yml"
DOCUMENT_FILE: Final = "documents.yml"
_TABLES: Final = ("xids",)
"""Of `rules/compat`, those that signatures look things up in."""
_VERDICT_KEYS: Final = ("about", "severity", "explains", "gap", "derived", "advice")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRule:
    """How a verdict stands to others. `explains` are the verdicts that follow from it.

    Signs of it that are no farther apart than `gap` are one incident.
    """

    name: str
    about: str
    severity: Severity
    explains: frozenset[str]
    gap: Millis
    derived: Mapping[str, Value | Expression]
    advice: str


@dataclass(frozen=True, slots=True)
class SignaturePack:
    """Signatures, and verdicts in their order: of two that claim as much, the earlier leads."""

    signatures: SignatureSet
    verdicts: Mapping[str, VerdictRule]


@cache
def shipped_pack() -> SignaturePack:
    """The pack that came with the program."""
    return load_pack(rules_path())


def signature_files(root: Path) -> tuple[Path, ...]:
    """The files of signatures under a folder of rules, in the order in which they are tried."""
    found = sorted((root / "signatures").glob("*.yml"))
    return tuple(path for path in found if path.name not in (VERDICT_FILE, DOCUMENT_FILE))


def load_pack(root: Path, files: Iterable[Path] | None = None) -> SignaturePack:
    """The signatures of `root`, or of `files` with the verdicts and tables of `root`.

    Raises SignatureError with every problem of all files.
    """
    problems: list[EnginewatchError] = []
    tables = _load_tables(root, problems)
    verdicts = _load_verdicts(root / "signatures" / VERDICT_FILE, problems)
    parsers: list[SignatureParser] = []
    signatures: list[Signature] = []
    for path in signature_files(root) if files is None else files:
        try:
            document = Document(read_text(path), str(path))
        except RuleError as failure:
            problems.append(failure)
            continue
        parser = SignatureParser(document, tables, frozenset(verdicts))
        signatures += parser.signatures()
        problems += parser.problems
        parsers.append(parser)
    problems += _repeated(signatures)
    problems += _unknown(parsers, {*(one.id for one in signatures), *verdicts})
    if problems:
        raise SignatureError(problems)
    return SignaturePack(SignatureSet(signatures), verdicts)


def load_verdicts(root: Path) -> Mapping[str, VerdictRule]:
    """The table of verdicts of a folder of rules. Raises SignatureError."""
    problems: list[EnginewatchError] = []
    found = _load_verdicts(root / "signatures" / VERDICT_FILE, problems)
    if problems:
        raise SignatureError(problems)
    return found


def _load_tables(root: Path, problems: list[EnginewatchError]) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for name in _TABLES:
        try:
            tables[name] = load_table(root / "compat" / f"{name}.yml")
        except SignatureError as failure:
            problems += failure.problems
    return tables


def _load_verdicts(path: Path, problems: list[EnginewatchError]) -> dict[str, VerdictRule]:
    try:
        document = Document(read_text(path), str(path))
    except RuleError as failure:
        problems.append(failure)
        return {}
    reader = _VerdictReader(document, {}, frozenset())
    found = {rule.name: rule for rule in reader.verdicts()}
    problems += reader.problems
    return found


class _VerdictReader(CaseReader):
    def verdicts(self) -> Iterator[VerdictRule]:
        root = self.document.root
        if root is None:
            return
        top = self.mapping(root, "the table of verdicts", ("verdicts",))
        entries = self.mapping(top["verdicts"].value, "verdicts") if "verdicts" in top else {}
        for name, entry in entries.items():
            what = f"verdict {name!r}"
            given = self.mapping(entry.value, what, _VERDICT_KEYS)
            explains = self.names(given.get("explains"), f"{what}: explains")
            for other in explains:
                self.known(given["explains"].value, other, entries, f"{what}: explains")
            yield VerdictRule(
                name=name,
                about=self.required(given, "about", what, entry.value),
                severity=self.choice_of(given, "severity", Severity, what) or Severity.INFO,
                explains=frozenset(explains),
                gap=self.duration(given["gap"].value, f"{what}: gap") if "gap" in given else 0,
                derived=self.derived(given.get("derived"), what),
                advice=self.text_of(given, "advice", what),
            )


def _repeated(signatures: Sequence[Signature]) -> Iterator[RuleError]:
    first: dict[str, Signature] = {}
    for one in signatures:
        other = first.setdefault(one.id, one)
        if other is not one:
            yield RuleError(
                f"signature {one.id!r} is there already",
                where=f"{one.file}:{one.line}",
                hint=f"{other.file}:{other.line}",
            )


def _unknown(parsers: Sequence[SignatureParser], known: set[str]) -> Iterator[RuleError]:
    """Names of signatures and verdicts that no file has."""
    for parser in parsers:
        for name, node in parser.references:
            if name not in known:
                yield RuleError(
                    f"{name!r} is neither a signature nor a verdict",
                    where=parser.document.where(node),
                    hint=closest(name, known),
                )
