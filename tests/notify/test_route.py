"""Which routes take an alert, and with what settings; beside Alertmanager's own answer."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from enginewatch.config import Config, parse_config
from enginewatch.model import Labels
from enginewatch.notify.route import DEFAULT_GROUP_BY, Route, integrations, route_tree

AMTOOL = shutil.which("amtool")
RECEIVERS = ("all", "night", "team-a", "team-b", "nobody")


def config(text: str) -> Config:
    names = ", ".join(f"{{name: {name}}}" for name in RECEIVERS)
    return parse_config(f"receivers: [{names}]\n{text}", Path("e.yml"))


def taken(root: Route, **labels: str) -> list[str]:
    return [route.receiver for route in root.match(Labels(labels))]


TREE = """
route:
  receiver: all
  routes:
    - matchers: [severity="page"]
      receiver: night
      continue: true
    - matchers: [deployment=~"a.*"]
      receiver: team-a
      group_by: [deployment]
      group_wait: 5s
      routes:
        - matchers: [severity="info"]
          receiver: nobody
        - matchers: [team!=""]
          group_by: ['...']
          repeat_interval: 1h
    - matchers: [deployment="b"]
      receiver: team-b
"""


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, ["all"]),
        ({"severity": "page"}, ["night"]),
        ({"severity": "page", "deployment": "b"}, ["night", "team-b"]),
        ({"deployment": "a1"}, ["team-a"]),
        ({"deployment": "a1", "severity": "info", "team": "x"}, ["nobody"]),
        ({"deployment": "ba"}, ["all"]),
    ],
)
def test_an_alert_goes_to_the_first_that_takes_it_and_on_where_told(
    labels: dict[str, str], expected: list[str]
) -> None:
    assert taken(route_tree(config(TREE)), **labels) == expected


def test_settings_come_from_above() -> None:
    root = route_tree(config(TREE))
    _, team_a, _ = root.routes
    assert root.group_by == DEFAULT_GROUP_BY
    assert team_a.group_by == ("deployment",)
    assert team_a.timing.group_wait == 5_000
    deep = team_a.routes[1]
    assert deep.receiver == "team-a"
    assert deep.group_by is None
    assert (deep.timing.group_wait, deep.timing.repeat_interval) == (5_000, 3_600_000)
    assert deep.timing.group_interval == root.timing.group_interval


def test_group_keys_tell_routes_and_labels_apart() -> None:
    root = route_tree(config(TREE))
    labels = Labels(deployment="a1", verdict="v", instance="x", team="t")
    assert root.group_key(labels) == '{}:{deployment="a1", verdict="v"}'
    assert root.routes[1].group_key(labels) == '{}/{deployment=~"a.*"}:{deployment="a1"}'
    assert 'instance="x"' in root.routes[1].routes[1].group_key(labels)


def test_a_key_stays_when_other_routes_come_and_go() -> None:
    tree = "route: {receiver: all, routes: [%s{matchers: [a=b]}, {matchers: [a=b]}]}"
    before = route_tree(config(tree % ""))
    after = route_tree(config(tree % "{matchers: [c=d]}, "))
    keys = [route.key for route in before.walk()]
    assert len(set(keys)) == 3
    assert set(keys) < {route.key for route in after.walk()}


def test_without_a_route_every_receiver_hears_of_every_alert() -> None:
    root = route_tree(config(""))
    assert taken(root, severity="info") == list(RECEIVERS)
    assert len({route.key for route in root.walk()}) == len(RECEIVERS) + 1


WATCHDOG = {"alertname": "Watchdog", "severity": "none"}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("", []),
        ("route: {receiver: all}", []),
        ("route: {receiver: all, routes: [{matchers: [deployment!=x]}]}", []),
        ("route: {receiver: all, routes: [{matchers: [severity!=page]}]}", []),
        (
            "route: {receiver: all, routes: [{matchers: [alertname=Watchdog], receiver: night}]}",
            ["night"],
        ),
        ("route: {receiver: all, routes: [{matchers: [severity=~info|none]}]}", ["all"]),
    ],
)
def test_what_is_for_machines_goes_only_where_a_route_names_it(
    tree: str, expected: list[str]
) -> None:
    assert taken(route_tree(config(tree)), **WATCHDOG) == expected


def test_integrations_are_named_as_receivers_are() -> None:
    read = parse_config(
        "receivers:\n- {name: a, console_configs: [{}],"
        " webhook_configs: [{url: 'http://x'}, {url: 'http://y'}]}\n- {name: nobody}\n",
        Path("e.yml"),
    )
    assert integrations(read) == {
        "a": ("a/console[0]", "a/webhook[0]", "a/webhook[1]"),
        "nobody": (),
    }


# The same trees and labels given to Alertmanager's own routing.

LABELS = ("deployment", "severity", "team")
VALUES = ("", "a", "b", "page")


def a_route(rng: random.Random, depth: int) -> dict[str, Any]:
    ops = ("=", "!=", "=~", "!~")
    matchers = [
        f'{rng.choice(LABELS)}{rng.choice(ops)}"{rng.choice(VALUES)}"'
        for _ in range(rng.randint(0, 2))
    ]
    route: dict[str, Any] = {"matchers": matchers} if matchers else {}
    if rng.random() < 0.7:
        route["receiver"] = rng.choice(RECEIVERS)
    if rng.random() < 0.4:
        route["continue"] = True
    if depth:
        route["routes"] = [a_route(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return route


@pytest.mark.skipif(AMTOOL is None, reason="apt-get install prometheus-alertmanager")
@pytest.mark.parametrize("seed", range(8))
def test_alertmanager_routes_alike(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    tree = {
        "receivers": [{"name": name} for name in RECEIVERS],
        "route": {"receiver": "all", "routes": [a_route(rng, 2) for _ in range(3)]},
    }
    path = tmp_path / "am.yml"
    path.write_text(yaml.safe_dump(tree))
    root = route_tree(parse_config(path.read_text(), path))
    for _ in range(10):
        labels = {name: rng.choice(VALUES) for name in LABELS}
        labels = {name: value for name, value in labels.items() if value}
        command = [str(AMTOOL), "config", "routes", "test", f"--config.file={path}"]
        pairs = [f"{name}={value}" for name, value in labels.items()]
        said = subprocess.run([*command, *pairs], capture_output=True, text=True, check=True)
        assert said.stdout.strip() == ",".join(taken(root, **labels)), (labels, tree)
