"""The models' arithmetic as canary tasks, in the JSON lines that a user writes.

PYTHONPATH=chaos python -m chaos.fp4.tasks --each 1000 > tasks.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from chaos.fp4.arithmetic import ANSWER, FAMILIES, PROMPT, Tokens, fresh, text


@dataclass(frozen=True, slots=True)
class Question:
    """One problem: what is asked, and the six characters of the right answer."""

    id: str
    family: str
    prompt: str
    right: str

    def to_json(self) -> dict[str, Any]:
        """A line of the canary's task file; `;` ends the answer and is not part of it."""
        return {
            "id": self.id,
            "family": self.family,
            "prompt": self.prompt,
            "score": "exact",
            "answer": self.right[:-1],
            "target": self.right,
            "max_tokens": ANSWER,
        }


def tokens_of(each: int) -> dict[str, Tokens]:
    """The first `each` fresh problems of every family, or all if there are fewer."""
    return {family: fresh(family)[:each] for family in FAMILIES}


def questions(each: int) -> list[Question]:
    """The same as questions, families mixed by a fixed shuffle: what comes first is a sample."""
    found = [
        Question(f"{family}-{number:05d}", family, text(row[:PROMPT]), text(row[PROMPT:]))
        for family, rows in tokens_of(each).items()
        for number, row in enumerate(rows)
    ]
    order = np.random.default_rng(7).permutation(len(found))
    return [found[place] for place in order]


def lines(each: int) -> Iterator[str]:
    """The task file's lines."""
    for question in questions(each):
        yield json.dumps(question.to_json())


def main() -> None:
    """Print the task file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=1000, help="problems a family")
    for line in lines(parser.parse_args().each):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
