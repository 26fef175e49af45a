"""Series for every selector of the shipped rules, so that each of them has something to say.

What a selector wants of labels is read off its matchers; values are random,
with quiet stretches, so that conditions are met now and then. Recorded series
are made up like all others.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml
from tests.promql.fleet import START, Sample

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, Millis
from enginewatch.promql.ast import Expr, VectorSelector
from enginewatch.promql.parser import parse_expr

SCRAPES = 120
INTERVAL: Millis = 15_000
BOUNDS = ("0.05", "0.25", "1.0", "5.0", "+Inf")
COUNTER_ENDINGS = ("_total", "_count", "_sum", "_bucket")


class PackRule(NamedTuple):
    """An expression of the pack and where it stands."""

    place: str
    text: str
    expr: Expr


def pack_rules(rules: Path) -> list[PackRule]:
    found = []
    for path in sorted(rules.rglob("*.yml")):
        content = yaml.safe_load(path.read_text())
        if path.name.endswith(".test.yml") or "groups" not in (content or {}):
            continue
        for group in content["groups"]:
            for rule in group["rules"]:
                name = rule.get("record") or rule["alert"]
                text = str(rule["expr"])
                found.append(PackRule(f"{path.name}: {name}", text, parse_expr(text)))
    return found


def pack_fleet(rules: list[PackRule], seed: int) -> Iterator[tuple[Labels, list[Sample]]]:
    """The series and their samples; each series once."""
    rng = random.Random(seed)
    wanted: dict[Labels, None] = {}
    for rule in rules:
        for node in rule.expr.walk():
            if isinstance(node, VectorSelector):
                wanted.update(dict.fromkeys(_series_for(node.matchers)))
    for labels in wanted:
        yield from _sampled(labels, rng)


def _series_for(matchers: tuple[Matcher, ...]) -> Iterator[Labels]:
    """Two engines with two ranks each, labelled so that all matchers hold."""
    for instance, rank in itertools.product(("a:8000", "b:8000"), ("0", "1")):
        base = {
            "instance": instance,
            "job": "engines",
            "deployment": f"demo-{instance[0]}",
            "model": "m",
            "model_name": "m",
            "rank": rank,
        }
        for matcher in matchers:
            if not matcher.matches(base.get(matcher.name, "")):
                base[matcher.name] = next(filter(matcher.matches, _candidates(matcher)), "")
        if base.get(METRIC_NAME):
            yield Labels(base)


def _candidates(matcher: Matcher) -> Iterator[str]:
    yield from ("", "other")
    if matcher.op is MatchOp.EQUAL:
        yield matcher.value
    # Patterns in rules are alternatives and simple classes; one of these fits.
    for part in matcher.value.replace("(", "|").replace(")", "|").split("|"):
        yield part.replace(".+", "x").replace(".*", "").replace("\\", "")
    yield from ("engine", "1", "x_total")


def _sampled(labels: Labels, rng: random.Random) -> Iterator[tuple[Labels, list[Sample]]]:
    times = [START + n * INTERVAL for n in range(SCRAPES) if rng.random() > 0.03]
    if labels.name.endswith("_bucket") and "le" not in labels:
        counts = [0] * len(BOUNDS)
        columns = []
        for _ in times:
            grown = sorted(rng.randrange(8) for _ in BOUNDS)
            counts = [count + more for count, more in zip(counts, grown, strict=True)]
            columns.append(counts)
        for place, bound in enumerate(BOUNDS):
            column = [float(row[place]) for row in columns]
            yield labels.with_(le=bound), list(zip(times, column, strict=True))
        return
    values = _counter(rng) if labels.name.endswith(COUNTER_ENDINGS) else _gauge(rng)
    yield labels, list(zip(times, values, strict=False))


def _counter(rng: random.Random) -> Iterator[float]:
    value = float(rng.randrange(1000))
    while True:
        step = rng.choice((0, 0, 3, 40.5))
        for _ in range(rng.randrange(1, 20)):
            yield value
            value = 0.0 if rng.random() < 0.01 else value + step


def _gauge(rng: random.Random) -> Iterator[float]:
    while True:
        level = rng.choice((0.0, 0.0, 1.0, 3.0, 0.97, 250.0, START / 1000 - 60))
        for _ in range(rng.randrange(1, 20)):
            yield level + (rng.random() if level == 3 else 0)
