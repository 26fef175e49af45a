"""Journal, JUnit and the page: what was written is read again, and hostile text stays text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from enginechaos import journal, junit, outcomes, report
from enginechaos.errors import ChaosError
from enginechaos.journal import Incident, Journal, Record

HOSTILE = "</title><script>alert('x')</script><img src=x onerror=\"alert(1)\">\x00\x1b]0;"


def record(outcome: str = "passed", name: str = "test_one", text: str = "fine") -> Record:
    incident = Incident(text, "collective_hang", text)
    for number, what in enumerate(
        ("steady", "injected", "verified", "firing", "delivered", "undone", "resolved")
    ):
        incident.tell(what, text, 1000.0 + number)
    incident.figures = {"detect": 4.5, "deliver": 9.0}
    incident.budget = {"detect": 15, "deliver": 5, "resolve": 90}
    incident.signal = {"name": text, "points": [[990.0 + n, float(n % 7)] for n in range(30)]}
    incident.deliveries = [
        {
            "at": 1004.0,
            "receiver": text,
            "key": text,
            "status": "firing",
            "verdict": text,
            "deployment": text,
            "severity": text,
            "headline": text,
        }
    ]
    return Record(
        f"suite/test_x.py::{name}",
        hazard=text,
        tier="sim",
        certifies=text,
        certifies_not=text,
        target=text,
        outcome=outcome,
        reason="" if outcome == "passed" else text,
        started=1000.0,
        finished=1010.0,
        incidents=[incident],
    )


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.keep(record("failed", "test_later"))
    kept.keep(record())
    kept.keep(record())  # once more, as after a teardown that failed
    kept.finish({"run": "r", "seed": 3})
    run = journal.read(tmp_path)
    assert run.facts["seed"] == 3
    assert [each.outcome for each in run.records] == ["failed", "passed"]
    assert run.records[1] == record()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[]", "not a journal"),
        ('{"schema": 2}', "schema 2 is not 1"),
        ('{"schema": 1, "tests": [{"x": 1}]}', "not a journal"),
    ],
)
def test_what_is_no_journal_is_said_so(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "journal.json").write_text(text)
    with pytest.raises(ChaosError, match=says):
        journal.read(tmp_path)


def test_the_page_shows_a_picture_and_figures_against_budgets() -> None:
    page = report.page({"run": "r", "seed": 3, "command": ["pytest", "chaos/"]}, [record()])
    found = Elements()
    found.feed(page)
    assert {"svg", "polyline", "circle"} <= set(found.seen)
    assert "4.5 of 15" in page
    assert '<span class="over">9.0 of 5</span>' in page
    assert "pytest suite/test_x.py::test_one --chaos-seed 3" in page
    assert "src" not in found.attributes


def test_hostile_text_stays_text() -> None:
    facts = {"run": HOSTILE, "command": [HOSTILE], "versions": {HOSTILE: HOSTILE}}
    page = report.page(facts, [record("failed", HOSTILE, HOSTILE)])
    found = Elements()
    found.feed(page)
    assert not {"script", "img"} & set(found.seen)
    assert "onerror" not in found.attributes


def test_junit_tells_inconclusive_from_failed_and_is_xml_whatever_is_in_it() -> None:
    outcomes_ = ("passed", "failed", "inconclusive", "error", "skipped")
    text = junit.document([record(each, each, HOSTILE) for each in outcomes_])
    suite = ElementTree.fromstring(text)[0]
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "1", "errors": "2", "skipped": "1"}
    (inconclusive,) = suite.findall("testcase[@name='inconclusive']/error")
    assert inconclusive.get("type") == "inconclusive"


def test_the_terminal_table_has_the_seconds_of_each_step() -> None:
    told = record("inconclusive", text="collective_hang")
    told.incidents.insert(0, Incident("no fault"))
    head, row = outcomes.table([told])
    assert head.split() == ["hazard", "test", "detect", "deliver", "resolve", "outcome"]
    assert "4.5 of 15 s" in row
    assert row.endswith("INCONCLUSIVE")


def test_the_command_writes_the_page_anew(tmp_path: Path) -> None:
    from enginechaos.cli import app

    Journal(tmp_path).keep(record())
    Journal(tmp_path).finish({"run": "r", "seed": 0, "command": [], "versions": {}})
    xml = tmp_path / "out.xml"
    app(["report", str(tmp_path), "--junit", str(xml)], standalone_mode=False)
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert xml.exists()
    assert json.loads((tmp_path / "journal.json").read_text())["schema"] == journal.SCHEMA
