"""Signature files written by tests, read with the shipped verdicts and tables."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from enginewatch.evidence.pack import SignaturePack, load_pack
from enginewatch.rulepack import rules_path

EXAMPLES = "source: test\nexamples:\n  - {finds: nothing, text: nothing}\n"


def load(folder: Path, text: str) -> SignaturePack:
    """The pack of one file with this text."""
    path = folder / "own.yml"
    path.write_text(text)
    return load_pack(rules_path(), [path])


def signatures(folder: Path, *bodies: str) -> SignaturePack:
    """The pack of signatures given without what these tests do not look at."""
    items = []
    for number, body in enumerate(bodies, 1):
        text = dedent(body).strip("\n") + "\n"
        if "about:" not in text:
            text += "about: a test\n"
        if "id:" not in text:
            text = f"id: s{number}\n{text}"
        items.append("  - " + indent(text + EXAMPLES, "    ").lstrip())
    return load(folder, "signatures:\n" + "".join(items))
