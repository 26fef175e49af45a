"""Which rules can give anything at all where only certain series exist.

A test's story is about one engine; the rules of the five others have nothing to
work on, and need not be evaluated thousands of times to find that out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from enginewatch.alerting.rules import Group, RecordingRule, Rule, RuleFile
from enginewatch.promql.ast import Binary, Call, Expr, VectorSelector
from enginewatch.promql.check import names

_FROM_NOTHING: Final = ("absent", "absent_over_time", "scalar")
_OF_ALERTS: Final = ("ALERTS", "ALERTS_FOR_STATE")


def may_give(expr: Expr, exists: Callable[[str], bool]) -> bool:
    """False only where the result is an empty vector, or an empty range vector, for certain.

    `exists` tells whether there may be a series of that name.
    """
    match expr:
        case VectorSelector():
            found = names(expr)
            return found is None or any(map(exists, found))
        case Call(func=func) if func in _FROM_NOTHING:
            return True
        case Binary(op="or"):
            return may_give(expr.left, exists) or may_give(expr.right, exists)
        case Binary(op="unless"):
            return may_give(expr.left, exists)
    # Of all else, nothing in one operand is nothing in the result.
    return all(may_give(child, exists) for child in expr.children())


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
