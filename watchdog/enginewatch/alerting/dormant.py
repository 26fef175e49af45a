"""Which rules can give anything at all where only certain series exist.

A test's story is about one engine; the rules of the five others have nothing to
work on, and need not be evaluated thousands of times to find that out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from enginewatch.alerting.rules import Group, RecordingRule, Rule, RuleFile
from enginewatch.promql.check import may_give

_OF_ALERTS: Final = ("ALERTS", "ALERTS_FOR_STATE")


def awake(files: Sequence[RuleFile], series: Iterable[str]) -> list[RuleFile]:
    """The files without the rules that give nothing while only series of these names are written.

    What rules record is there for other rules, and for themselves, so rules wake
    each other up.
    """
    there = {*series, *_OF_ALERTS}
    rules = [rule for file in files for group in file.groups for rule in group.rules]
    woken: set[Rule] = set()
    while True:
        more = [r for r in rules if r not in woken and may_give(r.expr, there.__contains__)]
        if not more:
            return [RuleFile(f.path, tuple(_only(g, woken) for g in f.groups)) for f in files]
        woken.update(more)
        there.update(rule.name for rule in more if isinstance(rule, RecordingRule))


def _only(group: Group, kept: set[Rule]) -> Group:
    return replace(group, rules=tuple(rule for rule in group.rules if rule in kept))
