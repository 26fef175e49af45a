"""What stands around a line, and between lines, does not change the verdict."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.evidence.knowledge import judge
from tests.evidence.test_variants import variants

NOISE = (
    'INFO:     10.0.0.1:5555 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    '(APIServer pid=1) INFO:     10.0.0.9:1 - "GET /metrics HTTP/1.1" 200 OK',
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.12/x.py", line 3, in f',
    "",
)
LOGS = [
    case
    for case in variants()
    if not any(
        line.startswith(("# ", "$ ")) or line.endswith(("{", ","))
        for line in case["text"].split("\n")
    )
]
"""Those that are lines through and through: no pages, no documents over lines."""


def with_noise(text: str) -> str:
    chance = random.Random(text)
    lines: list[str] = []
    for line in text.split("\n"):
        while chance.random() < 0.4:
            lines.append(chance.choice(NOISE))
        lines.append(line)
    return "\n".join(lines)


def coloured(text: str) -> str:
    return "\n".join(f"\x1b[1;36m{line}\x1b[0m" for line in text.split("\n"))


def boxed(text: str) -> str:
    """As Docker keeps it."""
    return "\n".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in text.split("\n")
    )


CASES = [
    *(pytest.param(case, with_noise, id=f"{case['id']}-noise") for case in LOGS),
    *(pytest.param(case, coloured, id=f"{case['id']}-coloured") for case in LOGS[::3]),
    *(pytest.param(case, boxed, id=f"{case['id']}-boxed") for case in LOGS[1::3]),
]


@pytest.mark.parametrize(("case", "dress"), CASES)
def test_the_verdict_stays(case: dict[str, Any], dress: Callable[[str], str]) -> None:
    found = judge(dress(case["text"]), case.get("context"))
    assert found.verdict == case["expect"]["verdict"], found.summary
