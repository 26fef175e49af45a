"""The suite's options of pytest, each with a long name that nobody else uses."""

from __future__ import annotations

import argparse
from typing import Any, Final

import pytest

OPTIONS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    (
        "--chaos-target",
        "--target",
        {"metavar": "FILE", "help": "the deployment to break, instead of a simulated engine"},
    ),
    (
        "--chaos-i-mean",
        "--i-mean",
        {"metavar": "NAME", "help": "the target's name, typed: yes, that one"},
    ),
    (
        "--chaos-dry-run",
        "--dry-run",
        {"action": "store_true", "help": "print the plan and the blast radius, and touch nothing"},
    ),
    (
        "--chaos-journal",
        "--journal",
        {"metavar": "DIR", "help": "where runs are kept (.enginechaos)"},
    ),
    (
        "--chaos-seed",
        "",
        {"metavar": "N", "type": int, "default": 0, "help": "of all that is random in the load"},
    ),
    (
        "--chaos-quiet-for",
        "--quiet-for",
        {
            "metavar": "SECONDS",
            "type": float,
            "default": 120.0,
            "help": "how long the load alone must page nobody (120; make soak: 3600)",
        },
    ),
)


def add(parser: pytest.Parser) -> None:
    """A short name that another plugin has taken stays that plugin's."""
    group = parser.getgroup("chaos", "enginechaos: induce hazards, and see the page come and go")
    for long, short, settings in OPTIONS:
        dest = long.removeprefix("--").replace("-", "_")
        both = {**settings, "dest": dest}
        group.addoption(long, **both)
        if not short:
            continue
        try:
            group.addoption(short, **{**both, "help": f"the same as {long}"})
        except (ValueError, argparse.ArgumentError):
            continue
