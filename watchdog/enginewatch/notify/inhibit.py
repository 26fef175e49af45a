"""Inhibition: while one alert fires, others that it explains are not told of.

Alertmanager's semantics (`inhibit/inhibit.go`): labels that are missing on both
sides are equal, and an alert that matches both sides of a rule is not inhibited
by another that does. What is ours: an inhibition outlives its source by a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from enginewatch.config import Config, InhibitRuleConfig, read_text, read_yaml, validated
from enginewatch.config.section import Section
from enginewatch.model import Alert, Labels, Matcher, Millis, matches_all
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
        return tuple([labels.get(name, "") for name in self.equal])


_Firing = dict[Labels, Millis | None]
"""Sources, and when they ended if they have."""


@dataclass(slots=True)
class _Sources:
    """The alerts that match a rule's source, by what must be equal; apart from the others, those
    that match its target too."""

    rule: InhibitRule
    one_sided: dict[tuple[str, ...], _Firing] = field(default_factory=dict)
    two_sided: dict[tuple[str, ...], _Firing] = field(default_factory=dict)

    def side(self, labels: Labels) -> dict[tuple[str, ...], _Firing]:
        return self.two_sided if matches_all(labels, self.rule.target) else self.one_sided

    def found(self, alert: Alert, now: Millis) -> Labels | None:
        """One that inhibits an alert."""
        if not (self.one_sided or self.two_sided):
            return None
        key = self.rule.key(alert.labels)
        mild, strict = self.one_sided.get(key), self.two_sided.get(key)
        if not (mild or strict) or not matches_all(alert.labels, self.rule.target):
            return None
        found = _in_force(mild, alert, now) if mild else None
        if found is None and strict and not matches_all(alert.labels, self.rule.source):
            found = _in_force(strict, alert, now)
        return found


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
        self._rules = tuple(_Sources(rule) for rule in rules)
        self._ended: dict[Labels, Millis] = {}

    def fires(self, labels: Labels) -> None:
        self._ended.pop(labels, None)
        for sources in self._rules:
            if matches_all(labels, sources.rule.source):
                side = sources.side(labels)
                side.setdefault(sources.rule.key(labels), {})[labels] = None

    def ends(self, labels: Labels, now: Millis) -> None:
        for sources in self._rules:
            firing = sources.side(labels).get(sources.rule.key(labels), {})
            if labels in firing:
                firing[labels] = self._ended[labels] = now

    def forget(self, now: Millis) -> None:
        """Lets go of what ended too long ago to matter."""
        for labels in [each for each, ended in self._ended.items() if now - ended > LINGER]:
            del self._ended[labels]
            for sources in self._rules:
                side, key = sources.side(labels), sources.rule.key(labels)
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
        found = (sources.found(alert, now) for sources in self._rules)
        return tuple(source for source in found if source is not None)


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
