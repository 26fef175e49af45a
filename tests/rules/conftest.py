"""The shipped pack, parsed once for all the tests of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from enginewatch.alerting.rules import AlertingRule, RecordingRule, Rule, load_rule_files
from enginewatch.alerting.testfile import TestGroup, load_test_file
from enginewatch.rulepack import rule_files, rules_path


@dataclass(frozen=True)
class Pack:
    root: Path
    rules: tuple[Rule, ...]
    groups: tuple[str, ...]
    stories: tuple[TestGroup, ...]

    @property
    def alerts(self) -> Iterator[AlertingRule]:
        return (rule for rule in self.rules if isinstance(rule, AlertingRule))

    @property
    def recordings(self) -> Iterator[RecordingRule]:
        return (rule for rule in self.rules if isinstance(rule, RecordingRule))

    def of_engines(self) -> Iterator[tuple[str, RecordingRule]]:
        """The recording rules of engines, each with the name of its file."""
        for rule in self.recordings:
            path = Path(rule.file)
            if path.parent.name == "engines" and path.stem != "gpu":  # which is no engine
                yield path.stem, rule


@pytest.fixture(scope="session")
def pack() -> Pack:
    root = rules_path()
    files = load_rule_files(rule_files(root))
    groups = [group for file in files for group in file.groups]
    tests = [load_test_file(path) for path in sorted(root.glob("hazards/*.test.yml"))]
    return Pack(
        root,
        tuple(rule for group in groups for rule in group.rules),
        tuple(group.name for group in groups),
        tuple(story for test in tests for story in test.groups),
    )
