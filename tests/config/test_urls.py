"""Engines named on the command line."""

from __future__ import annotations

import pytest

from enginewatch.config import Config, ConfigError, config_for_urls

Job = tuple[str, str, str, tuple[str, ...]]


def jobs(config: Config) -> list[Job]:
    return [
        (job.job_name, job.scheme, job.path, job.static_configs[0].targets)
        for job in config.scrape_configs
    ]


@pytest.mark.parametrize(
    ("urls", "runtime", "expected"),
    [
        (["http://gpu1:8000"], None, [("gpu1", "http", "/metrics", ("gpu1:8000",))]),
        (["gpu1:8000"], None, [("gpu1", "http", "/metrics", ("gpu1:8000",))]),
        (["gpu1"], None, [("gpu1", "http", "/metrics", ("gpu1",))]),
        (["gpu1"], "vllm", [("gpu1", "http", "/metrics", ("gpu1:8000",))]),
        (["gpu1"], "trtllm", [("gpu1", "http", "/prometheus/metrics", ("gpu1:8000",))]),
        (["gpu1"], "triton", [("gpu1", "http", "/metrics", ("gpu1:8002",))]),
        (["gpu1:99"], "nim", [("gpu1", "http", "/v1/metrics", ("gpu1:99",))]),
        (["https://gpu1/m/"], "nim", [("gpu1", "https", "/m", ("gpu1:8000",))]),
        (["http://[::1]:8000/"], None, [("::1", "http", "/metrics", ("[::1]:8000",))]),
        (["a:1", "a:2", "a:1"], None, [("a", "http", "/metrics", ("a:1", "a:2"))]),
        (
            ["a:1", "a:1/other"],
            None,
            [("a", "http", "/metrics", ("a:1",)), ("a-2", "http", "/other", ("a:1",))],
        ),
    ],
)
def test_jobs(urls: list[str], runtime: str | None, expected: list[Job]) -> None:
    config = config_for_urls(urls, runtime)
    assert jobs(config) == expected
    assert {job.runtime for job in config.scrape_configs} == {runtime}


def test_a_query_becomes_parameters() -> None:
    (job,) = config_for_urls(["http://a/metrics?match=x&match=y&z="]).scrape_configs
    assert job.params == {"match": ("x", "y"), "z": ("",)}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://a", "ftp://a: not a URL (like http://host:8000/path)"),
        ("http://", "http://: not a URL"),
        ("http://a:x", "http://a:x: not a URL (like"),
        ("http://u:s3cret@a", "the URL has credentials in it (move them to basic_auth"),
    ],
)
def test_what_is_no_url(url: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_for_urls([url])
    assert reason in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_unknown_runtimes_have_no_preset() -> None:
    with pytest.raises(ConfigError, match="no preset for runtime 'tgi'"):
        config_for_urls(["a"], "tgi")
