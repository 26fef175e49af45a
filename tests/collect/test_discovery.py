"""Target files are read again when they change, and a broken one changes nothing."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.collect.discovery import Discovery, parse_target_file
from enginewatch.config import ConfigError, StaticConfig, parse_config
from enginewatch.model import Millis


class Files:
    def __init__(self, folder: Path, *patterns: str):
        self.folder = folder
        text = (
            "scrape_configs:\n- job_name: j\n  static_configs: [{targets: ['static:1']}]\n"
            f"  file_sd_configs: [{{files: {json.dumps(patterns)}, refresh_interval: 10s}}]\n"
        )
        self.discovery = Discovery(parse_config(text, folder / "e.yml"))
        self.version = 0

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        self.version += 1  # a file system's clock may be coarse
        os.utime(path, ns=(self.version * 10**9, self.version * 10**9))

    def at(self, now: Millis) -> list[str]:
        found = self.discovery.targets(now).targets
        return sorted(t.target.instance for t in found if t.target.instance != "static:1")

    def problems(self, now: Millis) -> list[str]:
        return [p.replace(f"{self.folder}/", "") for p in self.discovery.targets(now).problems]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, "a.json", "b.yml", "more-*.yml")


def test_files_are_followed(files: Files) -> None:
    files.write("a.json", '[{"targets": ["a:1"],\t"labels": {"rack": "7"}}]')
    files.write("b.yml", "- targets: ['b:1']\n")
    assert files.at(0) == ["a:1", "b:1"]
    labels = {t.target.instance: t.target.labels for t in files.discovery.targets(0).targets}
    assert (labels["a:1"].get("rack"), labels["b:1"].get("rack")) == ("7", None)
    files.write("b.yml", "- targets: ['b:2']\n")
    files.write("more-1.yml", "- targets: ['c:1']\n")
    assert files.at(9_999) == ["a:1", "b:1"]
    assert files.at(10_000) == ["a:1", "b:2", "c:1"]
    (files.folder / "more-1.yml").unlink()
    (files.folder / "a.json").unlink()
    assert files.at(20_000) == ["b:2"]
    assert files.problems(20_000) == ["a.json: no such target file"]


def test_nothing_changed_is_the_same_answer(files: Files) -> None:
    files.write("b.yml", "- targets: ['b:1']\n")
    first = files.discovery.targets(0)
    assert files.discovery.targets(10_000).targets is first.targets
    files.write("b.yml", "- targets: ['b:1']\n")
    assert files.discovery.targets(20_000) == first


def test_a_clock_set_back_does_not_stop_the_looking(files: Files) -> None:
    assert files.at(1_000_000) == []
    files.write("b.yml", "- targets: ['b:1']\n")
    assert files.at(5_000) == ["b:1"]


def test_a_broken_file_keeps_the_last_targets_and_tells_once(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    files.write("a.json", '[{"targets": ["a:1"]}]')
    files.write("b.yml", "- targets: ['b:1']\n")
    assert files.at(0) == ["a:1", "b:1"]
    files.write("b.yml", "- targets: ['b:2']\n- target: ['c:1']\n")
    with caplog.at_level(logging.WARNING):
        for now in (10_000, 20_000, 30_000):
            assert files.at(now) == ["a:1", "b:1"]
    (told,) = caplog.messages
    assert "b.yml:2: [1].targets: is missing; " in told
    files.write("b.yml", "- targets: ['b:3']\n")
    assert files.at(40_000) == ["a:1", "b:3"]
    assert files.problems(40_000) == []


def test_targets_that_are_no_use_are_told_and_others_stay(files: Files) -> None:
    files.write(
        "b.yml",
        "- targets: ['b:1', 'c:1']\n"
        "- {targets: ['d:1'], labels: {__scrape_interval__: soon}}\n"
        "- {targets: ['e:1'], labels: {instance: 'b:1'}}\n"
        "- targets: ['b:1']\n",
    )
    assert files.at(0) == ["b:1", "c:1"]
    interval, same = files.problems(0)[1:]
    assert interval.startswith("job j: d:1: __scrape_interval__: 'soon' is not a duration")
    assert same.startswith("job j: http://e:1/metrics has the same labels as http://b:1/metrics")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("t.json", "[{", "t.json: not JSON: Expecting property name"),
        ("t.json", "[" * 100_000, "t.json: not JSON"),
        (
            "t.json",
            '[{"targets": ["a"]},\n{"targets": [], "label": 1}]',
            "json:2: [1].label: unknown",
        ),
        ("t.yml", "targets: [a]", "t.yml:1: must be a list, not a mapping"),
        ("t.yml", "- a:1", "t.yml:1: [0]: must be a mapping, not 'a:1'"),
        ("t.yml", "- labels: {}", "t.yml:1: [0].targets: is missing"),
        ("t.yml", "- targets: [u:s3cret@a]", "[0].targets[0]: the target has credentials in it"),
        ("t.yml", "- targets: [a\n", "not YAML"),
    ],
)
def test_what_is_wrong_with_a_target_file(name: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_target_file(text, Path(name))
    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.dictionaries(
            st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text(st.characters(codec="ascii"))
        ),
        max_size=3,
    ),
    st.booleans(),
)
def test_json_is_read_as_json(groups: list[dict[str, str]], pretty: bool) -> None:
    data = [{"targets": ["a:1"], "labels": labels} for labels in groups]
    text = json.dumps(data, indent="\t" if pretty else None)
    assert parse_target_file(text, Path("t.json")) == tuple(
        StaticConfig(targets=("a:1",), labels=labels) for labels in groups
    )


def test_an_empty_file_has_no_targets() -> None:
    assert parse_target_file("", Path("t.yml")) == parse_target_file("[]", Path("t.json")) == ()
