"""Collectors live as long as their section of the configuration; roundss follow the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import numpy as np
from tests.support.samples import series_at

from enginewatch.collect.plugins import Collectors, Plugin, Surroundings
from enginewatch.collect.rounds import Rounds
from enginewatch.config import Config
from enginewatch.model import METRIC_NAME, Labels, Sample
from enginewatch.store.head import Head


class Fake:
    def __init__(self, name: str, told: list[str], *, breaks: bool = False):
        self.name, self.told, self.breaks = name, told, breaks

    def start(self) -> None:
        if self.breaks:
            raise OSError("no such thing")
        self.told.append(f"start {self.name}")

    async def stop(self) -> None:
        self.told.append(f"stop {self.name}")
        if self.name.startswith("bad"):
            raise OSError("stuck")


def follow(configs: Iterable[Config], told: list[str], *, breaks: bool = False) -> None:
    """Collectors named by the listening address, which stands for a section here."""
    plugin = Plugin(
        "fake",
        lambda config: None if config.web.listen == "off:1" else config.web.listen,
        lambda config, _: Fake(config.web.listen, told, breaks=breaks),
    )
    surroundings = Surroundings(Head(), list, lambda: 0)

    async def run() -> None:
        collectors = Collectors(surroundings, [plugin])
        for config in configs:
            await collectors.follow(config)
        await collectors.stop()

    asyncio.run(run())


def listening(address: str) -> Config:
    return Config.model_validate({"web": {"listen": address}})


def test_a_collector_lives_as_long_as_its_section_is_the_same() -> None:
    told: list[str] = []
    follow(map(listening, ("a:1", "a:1", "b:1", "off:1", "off:1", "bad:1")), told)
    assert told == ["start a:1", "stop a:1", "start b:1", "stop b:1", "start bad:1", "stop bad:1"]


def test_one_that_cannot_start_stops_nobody() -> None:
    told: list[str] = []
    follow([listening("a:1"), listening("b:1")], told, breaks=True)
    assert told == []


def series(name: str, **labels: str) -> Labels:
    return Labels({METRIC_NAME: name, **labels})


def test_a_series_that_a_round_is_without_ends() -> None:
    head = Head()
    rounds = Rounds(head, "w")
    rounds.write(1000, [Sample(series("a", x="1"), 1.0), Sample(series("a", x="2"), 2.0)])
    rounds.write(2000, [Sample(series("a", x="2"), 3.0)])
    assert series_at(head, "a", 2000) == {Labels(x="2"): 3.0}
    rounds.end(3000)
    assert series_at(head, "a", 3000) == {}


def test_columns_hold_until_the_store_keeps_other_series() -> None:
    head = Head(keep=lambda name: 60_000 if name == "a" else None)
    rounds = Rounds(head, "w")
    names = [series("b"), series("a")]
    columns = rounds.columns(names)
    values = np.array([1.0, 2.0])
    assert rounds.write_columns(1000, columns, values)
    assert series_at(head, "a", 1000) == {Labels(): 2.0}
    head.reconfigure(lambda name: 60_000)
    assert not rounds.write_columns(2000, columns, values)
    assert rounds.write_columns(2000, rounds.columns(names), values)
    assert series_at(head, "b", 2000) == {Labels(): 1.0}
