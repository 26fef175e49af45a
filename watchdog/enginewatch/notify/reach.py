"""Who would hear of an alert, and which pages would reach nobody: asked before anything fires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from enginewatch.alerting.rules import AlertingRule
from enginewatch.config import Config
from enginewatch.model import Labels
from enginewatch.notify.route import Route, integrations, route_tree
from enginewatch.promql.ast import Aggregate, Binary, Expr, Paren, ValueType

PAGE: Final = "page"


class Heard(NamedTuple):
    """A route that takes an alert, and the ways in which its receiver is told."""

    route: Route
    integrations: tuple[str, ...]


def hearers(config: Config, labels: Labels) -> tuple[Heard, ...]:
    """The routes that take an alert of these labels and tell somebody."""
    ways = integrations(config)
    found = (Heard(r, ways.get(r.receiver, ())) for r in route_tree(config).match(labels))
    return tuple(heard for heard in found if heard.integrations)


def unheard_pages(
    config: Config, rules: Iterable[AlertingRule], targets: Iterable[Labels]
) -> dict[str, tuple[str, ...]]:
    """By deployment, the alerts of severity `page` about one of these targets that reach nobody.

    An alert is taken to have those of its target's labels that its expression keeps, and those of
    its rule that are no templates; one without a deployment is found under the empty name.
    """
    ways, tree = integrations(config), route_tree(config)
    pages = [(kept_labels(rule.expr), _labels(rule)) for rule in rules]
    found: dict[str, dict[str, None]] = {}
    for target in targets:
        for kept, page in pages:
            if page["severity"] != PAGE:
                continue
            labels = Labels({**(target if kept is None else target.only(kept)), **page})
            if not any(ways.get(route.receiver) for route in tree.match(labels)):
                named = found.setdefault(labels.get("deployment", ""), {})
                named[page["alertname"]] = None
    return {deployment: tuple(sorted(names)) for deployment, names in sorted(found.items())}


def _labels(rule: AlertingRule) -> Mapping[str, str]:
    fixed = {name: t.text for name, t in rule.labels.items() if "{{" not in t.text}
    return {"severity": "", **fixed, "alertname": rule.name}


def kept_labels(expr: Expr) -> frozenset[str] | None:
    """The labels that an expression groups its results by; None where it keeps all."""
    match expr:
        case Paren():
            return kept_labels(expr.expr)
        case Aggregate(without=False):
            return frozenset(expr.grouping)
        case Binary(matching=None):
            vectors = [each for each in (expr.left, expr.right) if each.type is ValueType.VECTOR]
            return kept_labels(vectors[0]) if vectors else None
    return None
