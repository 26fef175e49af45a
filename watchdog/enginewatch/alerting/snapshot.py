"""The alerts of all rules as they outlive a restart or a reload: values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from enginewatch.alerting.rules import AlertingRule
from enginewatch.alerting.state import Alerts
from enginewatch.model import Millis


class RuleKey(NamedTuple):
    """What tells an alerting rule from others before and after a restart.

    Labels are as written. They are part of an alert's identity, so a rule whose
    labels changed is another rule; its expression, `for` and file may change.
    """

    group: str
    alert: str
    labels: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, group: str, rule: AlertingRule) -> RuleKey:
        labels = tuple(sorted((name, template.text) for name, template in rule.labels.items()))
        return cls(group, rule.name, labels)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The alerts at `saved_at`, by rule; rules without alerts may be left out."""

    saved_at: Millis
    alerts: Mapping[RuleKey, Alerts] = field(default_factory=dict)
