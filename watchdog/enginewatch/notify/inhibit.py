"""Inhibition: while one alert fires, others that it explains are not told of.

Alertmanager's semantics (`inhibit/inhibit.go`): labels that are missing on both
sides are equal, and an alert that matches both sides of a rule is not inhibited
by another that does. What is ours: an inhibition outlives its source by a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from enginewatch.config import Config, InhibitRuleConfig, read_text, read_yaml, validated
from enginewatch.config.section import Section
from enginewatch.model import Alert, Labels, Matcher, Millis, matches_all
from enginewatch.notify.bylabels import ByLabels, asked
from enginewatch.rulepack import rules_path

LINGER: Final[Millis] = 60_000
"""For so long an alert that has ended still mutes those that fired before it ended.

When a dead engine is back, its alert ends with the first good scrape; what it
explained ends as its windows fill, half a minute later, and would be told of in
between as if it were news.
"""


@dataclass(frozen=True, slots=True)
class InhibitRule:
    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]

    def key(self, labels: Labels) -> tuple[str, ...]:
        return labels.values_of(self.equal)


_Firing = dict[Labels, Millis | None]
"""Sources, and when they ended if they have."""

_Side = dict[tuple[str, ...], _Firing]
"""Sources by what must be equal."""


@dataclass(slots=True)
class _Sources:
    """The alerts that match a rule's source; apart from the others, those that match its target
    too."""

    rule: InhibitRule
    one_sided: _Side = field(default_factory=dict)
    two_sided: _Side = field(default_factory=dict)


class _Roles(NamedTuple):
    """What an alert is to the rules, by its labels: where it stands as a source, and which sources
    it is a target of."""

    source_in: tuple[tuple[InhibitRule, _Side], ...]
    target_of: tuple[tuple[InhibitRule, tuple[_Side, ...]], ...]


def _roles(rules: Iterable[_Sources], labels: Labels) -> _Roles:
    source_in: list[tuple[InhibitRule, _Side]] = []
    target_of: list[tuple[InhibitRule, tuple[_Side, ...]]] = []
    for each in rules:
        is_source = matches_all(labels, each.rule.source)
        is_target = matches_all(labels, each.rule.target)
        if is_source:
            source_in.append((each.rule, each.two_sided if is_target else each.one_sided))
        if is_target:
            sides = (each.one_sided,) if is_source else (each.one_sided, each.two_sided)
            target_of.append((each.rule, sides))
    return _Roles(tuple(source_in), tuple(target_of))


def _in_force(sources: _Firing, alert: Alert, now: Millis) -> Labels | None:
    for labels, ended in sources.items():
        if ended is None:
            return labels
        lingers = now - ended <= LINGER
        if lingers and alert.fired_at is not None and alert.fired_at <= ended:
            return labels
    return None


class Inhibitor:
    """What fires now, looked up by rule. It keeps state, but has no clock and does no I/O."""

    def __init__(self, rules: Iterable[InhibitRule]):
        sources = tuple(_Sources(rule) for rule in rules)
        matchers = chain.from_iterable((*s.rule.source, *s.rule.target) for s in sources)
        self._roles: Final = ByLabels(asked(matchers), partial(_roles, sources))
        self._ended: dict[Labels, Millis] = {}

    def fires(self, labels: Labels) -> None:
        self._ended.pop(labels, None)
        for rule, side in self._roles(labels).source_in:
            side.setdefault(rule.key(labels), {})[labels] = None

    def ends(self, labels: Labels, now: Millis) -> None:
        for rule, side in self._roles(labels).source_in:
            firing = side.get(rule.key(labels), {})
            if labels in firing:
                firing[labels] = self._ended[labels] = now

    def forget(self, now: Millis) -> None:
        """Lets go of what ended too long ago to matter."""
        for labels in [each for each, ended in self._ended.items() if now - ended > LINGER]:
            del self._ended[labels]
            for rule, side in self._roles(labels).source_in:
                key = rule.key(labels)
                left = side.get(key)
                if left is not None:
                    left.pop(labels, None)
                    if not left:
                        del side[key]

    def shift(self, span: Millis) -> None:
        """The wall clock was set by `span`."""
        for labels, ended in tuple(self._ended.items()):
            self.ends(labels, ended + span)

    def inhibited_by(self, alert: Alert, now: Millis) -> tuple[Labels, ...]:
        """The alerts that keep this one from being told, one for each rule that does."""
        found: list[Labels] = []
        for rule, sides in self._roles(alert.labels).target_of:
            key = rule.key(alert.labels)
            for side in sides:
                source = _in_force(side[key], alert, now) if key in side else None
                if source is not None:
                    found.append(source)
                    break
        return tuple(found)


def inhibit_rules(config: Config) -> tuple[InhibitRule, ...]:
    """The rules of a configuration, `shipped` replaced by what comes with the program.

    Raises ConfigError or RulePackError for a broken installation.
    """
    rules: list[InhibitRuleConfig] = []
    for entry in config.inhibit_rules:
        rules += shipped_rules() if entry is None else (entry,)
    return tuple(
        InhibitRule(rule.source_matchers, rule.target_matchers, rule.equal) for rule in rules
    )


class _File(Section):
    inhibit_rules: tuple[InhibitRuleConfig, ...] = ()


def shipped_rules(root: Path | None = None) -> Sequence[InhibitRuleConfig]:
    """Those of `inhibit.yml` in the rule pack, which an Alertmanager takes as it is."""
    path = (root or rules_path()) / "inhibit.yml"
    tree = read_yaml(read_text(path, "the shipped inhibitions"), str(path))
    return validated(_File, tree, base=path.parent).inhibit_rules
