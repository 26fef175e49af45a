"""A small world for tests of the rule manager: targets, their pages, the store, the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import dedent

import numpy as np

from enginewatch.alerting.events import AlertChange, GroupResult
from enginewatch.alerting.inputs import InputWatch
from enginewatch.alerting.manager import RuleManager
from enginewatch.alerting.rules import parse_rule_file
from enginewatch.alerting.trace import Tracer
from enginewatch.model import Labels, Target
from enginewatch.promql.evaluator import Evaluator
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.values import Vector
from enginewatch.store.head import Head

SECOND = 1000
START = 1_700_000_010_000
SCRAPE = 5 * SECOND
INTERVAL = 15 * SECOND

Page = Mapping[str, float] | None
"""The samples of a page by name, or None when the target does not answer."""


class World:
    """Targets `a`, `b`, … scraped every 5 s, rules evaluated every 15 s.

    `watching` switches UNKNOWN on.
    """

    def __init__(self, rules: str, *, watching: bool = True):
        self.now = START
        self.targets: list[Target] = []
        self.watching = watching
        self.begin(rules)

    def begin(self, rules: str) -> None:
        """A process with an empty store."""
        self.head = Head()
        self.evaluator = Evaluator(self.head)
        self.manager = self.manage(rules)

    def manage(self, rules: str) -> RuleManager:
        file = parse_rule_file(dedent(rules), "rules.yml")
        watch = InputWatch(
            Tracer([file]), self.head, lambda: self.targets, default_interval=INTERVAL
        )
        return RuleManager(
            [file],
            self.evaluator,
            self.head,
            interval=INTERVAL,
            watch=watch if self.watching else None,
        )

    def configure(self, *instances: str, **labels: str) -> None:
        self.targets = [
            Target(f"http://{i}", Labels(instance=i, job="j", deployment="d", **labels))
            for i in instances
        ]

    def scrape(self, pages: Mapping[str, Page]) -> None:
        """One round of scrapes now; a target without a page here is one that is not scraped."""
        for target in self.targets:
            if target.instance not in pages:
                continue
            page = pages[target.instance]
            samples = {"up": 0.0 if page is None else 1.0, **(page or {})}
            self.write(target.instance, {(name, target.labels): v for name, v in samples.items()})

    def write(self, source: str, samples: Mapping[tuple[str, Labels], float]) -> None:
        found = self.head.source(source)
        refs = [found.resolve(labels.with_(__name__=name)) for name, labels in samples]
        values = np.array(list(samples.values()), dtype=np.float64)
        found.append(self.now, np.array(refs, dtype=np.int64), values)

    def evaluate(self, *groups: str) -> list[GroupResult]:
        return [
            self.manager.evaluate(group, self.now)
            for group in self.manager.groups
            if not groups or group.name in groups
        ]

    def pass_time(self, seconds: int, pages: Mapping[str, Page]) -> Iterator[AlertChange]:
        """Scrapes and evaluations until that many seconds have passed; gives the changes."""
        for _ in range(0, seconds * SECOND, SCRAPE):
            self.now += SCRAPE
            self.scrape(pages)
            if self.now % INTERVAL == 0:
                for result in self.evaluate():
                    assert not result.failures
                    yield from result.changes

    def changes(self, seconds: int, pages: Mapping[str, Page]) -> list[str]:
        """As `pass_time`, each change as `kind instance`."""
        return [
            f"{change.kind} {change.alert.labels.get('instance', '')}".strip()
            for change in self.pass_time(seconds, pages)
        ]

    def ask(self, expr: str) -> dict[str, float]:
        """The value of an expression now, by series as written."""
        value = self.evaluator.instant(parse_expr(expr), self.now)
        assert isinstance(value, Vector)
        return {repr(labels): number for labels, number in value.samples()}
