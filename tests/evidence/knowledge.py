"""What the tests of this folder share: the shipped knowledge, and short ways to ask it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from enginewatch.evidence.diagnose import diagnose, shipped_knowledge
from enginewatch.evidence.gather import Input, Knowledge
from enginewatch.evidence.reader import LogReader, Match
from enginewatch.evidence.signatures import SignatureSet
from enginewatch.evidence.verdict import Verdict

YEAR = 2026


@cache
def knowledge() -> Knowledge:
    return shipped_knowledge()


def judge(
    text: str | bytes, context: Mapping[str, Any] | None = None, name: str = "log"
) -> Verdict:
    raw = text.encode() if isinstance(text, str) else text
    one = Input(name, raw.split(b"\n"))
    return diagnose([one], context, knowledge=knowledge(), year=YEAR)


def read(signatures: SignatureSet, text: str) -> list[Match]:
    """All matches of a log, read to its end."""
    reader = LogReader(signatures, "log", year=YEAR)
    matches: list[Match] = []
    for line in text.split("\n"):
        matches += reader.feed(line)
    return matches + reader.finish()
