"""Labels and URLs of targets, as Prometheus makes them from a job and an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.collect.target import ScrapeTarget, make_target
from enginewatch.config import Config, ConfigError, parse_config
from enginewatch.model import Labels


def config(job: str = "", top: str = "") -> Config:
    return parse_config(f"{top}\nscrape_configs:\n- {{job_name: j{job}}}\n", Path("e.yml"))


def target(address: str, labels: dict[str, str] | None = None, job: str = "") -> ScrapeTarget:
    settings = config(job)
    return make_target(settings, settings.scrape_configs[0], address, labels or {})


def test_defaults() -> None:
    one = target("a:8000")
    assert one.target.url == "http://a:8000/metrics"
    assert one.target.labels == Labels(instance="a:8000", job="j", deployment="j")
    assert one.discovered == Labels(
        job="j", __address__="a:8000", __scheme__="http", __metrics_path__="/metrics"
    )
    assert (one.interval, one.timeout) == (5_000, 4_000)


@pytest.mark.parametrize(
    ("labels", "job", "expected"),
    [
        ({"rack": "7"}, "", {"instance": "a", "job": "j", "deployment": "j", "rack": "7"}),
        ({"job": "k"}, "", {"instance": "a", "job": "k", "deployment": "k"}),
        ({"instance": "b"}, "", {"instance": "b", "job": "j", "deployment": "j"}),
        ({}, ", deployment: d, runtime: nim", {"deployment": "d", "runtime": "nim"}),
        ({"deployment": "e", "runtime": "x"}, ", deployment: d, runtime: nim", {"deployment": "e"}),
        ({"rack": ""}, "", {"instance": "a", "job": "j", "deployment": "j"}),
        ({"__meta_x": "1"}, "", {"instance": "a", "job": "j", "deployment": "j"}),
    ],
)
def test_labels(labels: dict[str, str], job: str, expected: dict[str, str]) -> None:
    found = target("a", labels, job).target.labels
    assert {name: found.get(name) for name in expected} == expected
    assert not [name for name in found if name.startswith("__")]


@pytest.mark.parametrize(
    ("labels", "job", "url"),
    [
        ({}, ", scheme: https, metrics_path: /a b", "https://a/a%20b"),
        ({"__scheme__": "https", "__metrics_path__": "/x"}, "", "https://a/x"),
        ({}, ", params: {m: [x, y z]}", "http://a/metrics?m=x&m=y+z"),
        ({"__param_m": "w"}, ", params: {m: [x, y], n: [z]}", "http://a/metrics?m=w&m=y&n=z"),
        ({"__param_k": "v"}, "", "http://a/metrics?k=v"),
        ({}, ", runtime: trtllm", "http://a/prometheus/metrics"),
    ],
)
def test_urls(labels: dict[str, str], job: str, url: str) -> None:
    assert target("a", labels, job).target.url == url


def test_intervals_of_one_target() -> None:
    one = target("a", {"__scrape_interval__": "1m", "__scrape_timeout__": "30s"})
    assert (one.interval, one.timeout) == (60_000, 30_000)
    assert target("a", {"__scrape_interval__": "1s"}).timeout == 1_000


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"__scrape_interval__": "5"}, "a: __scrape_interval__: '5' is not a duration"),
        ({"__scrape_interval__": "0s"}, "__scrape_interval__ is not positive"),
        ({"__scrape_timeout__": "1h"}, "longer than the scrape interval"),
        ({"__scheme__": "ftp"}, "__scheme__ is 'ftp'"),
    ],
)
def test_overrides_that_can_not_be(labels: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        target("a", labels)


def test_limits_are_the_jobs_or_the_defaults() -> None:
    limits = target("a", job=", body_size_limit: 1KB, sample_limit: 0, line_limit: 7").limits
    assert (limits.body_size, limits.samples, limits.lines) == (1024, 0, 7)
    assert limits.labels == target("b").limits.labels > 0


def test_equal_targets_need_no_change() -> None:
    assert target("a") == target("a")
    assert target("a") != target("a", job=", honor_labels: true")
    two = parse_config(
        "scrape_configs: [{job_name: j, static_configs: [{targets: [x]}]}]", Path("e.yml")
    )
    assert make_target(two, two.scrape_configs[0], "a", {}) == target("a")


def test_targets_spread_over_the_interval() -> None:
    offsets = [target(f"host{n}:8000").offset for n in range(1000)]
    assert offsets == [target(f"host{n}:8000").offset for n in range(1000)]
    fullest = max(sum(low <= o < low + 500 for o in offsets) for low in range(0, 5000, 500))
    assert fullest < 150
