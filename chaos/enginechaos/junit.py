"""A run as JUnit XML, for CI that shows nothing else. INCONCLUSIVE is an error of that type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as Tree

from enginechaos.errors import ChaosError
from enginechaos.journal import Record

_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS: Final = {
    "failed": "failure",
    "inconclusive": "error",
    "error": "error",
    "skipped": "skipped",
}


def document(records: Sequence[Record]) -> str:
    kinds = [_ELEMENTS.get(record.outcome) for record in records]
    suite = Tree.Element(
        "testsuite",
        name="enginechaos",
        tests=str(len(records)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{sum(record.finished - record.started for record in records):.3f}",
    )
    for record in records:
        suite.append(_case(record))
    root = Tree.Element("testsuites")
    root.append(suite)
    return Tree.tostring(root, encoding="unicode", xml_declaration=True)


def write(records: Sequence[Record], path: Path) -> None:
    """Raises ChaosError where the disk does not take it."""
    try:
        path.write_text(document(records), encoding="utf-8")
    except OSError as failure:
        raise ChaosError(f"can't be written: {failure.strerror}", where=str(path)) from None


def _case(record: Record) -> Tree.Element:
    file, _, name = record.id.partition("::")
    case = Tree.Element(
        "testcase",
        classname=_text(file.removesuffix(".py").replace("/", ".")),
        name=_text(name or record.id),
        time=f"{record.finished - record.started:.3f}",
    )
    properties = Tree.SubElement(case, "properties")
    told = {
        "hazard": record.hazard,
        "tier": record.tier,
        "certifies": record.certifies,
        "outcome": record.outcome,
    }
    for incident in record.incidents[:1]:
        told |= {f"seconds_to_{key}": f"{took:.3f}" for key, took in incident.figures.items()}
    for key, value in told.items():
        Tree.SubElement(properties, "property", name=key, value=_text(value))
    kind = _ELEMENTS.get(record.outcome)
    if kind is not None:
        Tree.SubElement(case, kind, type=record.outcome, message=_text(record.reason))
    return case


def _text(value: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
