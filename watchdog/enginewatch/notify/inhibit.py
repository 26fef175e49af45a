"""Inhibition: while one alert fires, others that it explains are not told of.

Alertmanager's semantics (`inhibit/inhibit.go`): labels that are missing on both
sides are equal, and an alert that matches both sides of a rule is not inhibited
by another that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from enginewatch.config import Config, InhibitRuleConfig, read_text, read_yaml, validated
from enginewatch.config.section import Section
from enginewatch.model import Labels, Matcher, matches_all
from enginewatch.rulepack import rules_path


@dataclass(frozen=True, slots=True)
class InhibitRule:
    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]

    def key(self, labels: Labels) -> tuple[str, ...]:
        return tuple(labels.get(name, "") for name in self.equal)


@dataclass(slots=True)
class _Sources:
    """The firing alerts that match a rule's source, by what must be equal; apart from the others,
    those that match its target too."""

    rule: InhibitRule
    one_sided: dict[tuple[str, ...], dict[Labels, None]] = field(default_factory=dict)
    two_sided: dict[tuple[str, ...], dict[Labels, None]] = field(default_factory=dict)

    def side(self, labels: Labels) -> dict[tuple[str, ...], dict[Labels, None]]:
        return self.two_sided if matches_all(labels, self.rule.target) else self.one_sided

    def found(self, labels: Labels) -> Labels | None:
        """One that inhibits an alert of these labels."""
        key = self.rule.key(labels)
        mild, strict = self.one_sided.get(key), self.two_sided.get(key)
        if not (mild or strict) or not matches_all(labels, self.rule.target):
            return None
        if mild:
            return next(iter(mild))
        on_both_sides = matches_all(labels, self.rule.source)
        return None if on_both_sides or not strict else next(iter(strict))


class Inhibitor:
    """What fires now, looked up by rule. It keeps state, but has no clock and does no I/O."""

    def __init__(self, rules: Iterable[InhibitRule]):
        self._rules = tuple(_Sources(rule) for rule in rules)

    def fires(self, labels: Labels) -> None:
        for sources in self._rules:
            if matches_all(labels, sources.rule.source):
                side = sources.side(labels)
                side.setdefault(sources.rule.key(labels), {})[labels] = None

    def ends(self, labels: Labels) -> None:
        for sources in self._rules:
            side, key = sources.side(labels), sources.rule.key(labels)
            left = side.get(key)
            if left is not None:
                left.pop(labels, None)
                if not left:
                    del side[key]

    def inhibited_by(self, labels: Labels) -> tuple[Labels, ...]:
        """The alerts that keep this one from being told, one for each rule that does."""
        found = (sources.found(labels) for sources in self._rules)
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
