"""What the sections of this machine accept, and whose its GPUs are."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.config import Config, ConfigFileError, parse_config

ONE = "scrape_configs: [{job_name: a, deployment: chat}, {job_name: b, deployment: chat}]"
TWO = "scrape_configs: [{job_name: a, deployment: chat}, {job_name: b}]"
LABELLED = """
scrape_configs:
  - {job_name: a, static_configs: [{targets: [h:1], labels: {deployment: chat}}]}
"""


def config(text: str) -> Config:
    return parse_config(text, Path("enginewatch.yml"))


@pytest.mark.parametrize(
    ("text", "sole"), [(ONE, "chat"), (TWO, None), (LABELLED, "chat"), ("", None)]
)
def test_the_only_deployment_is_known_without_being_named_again(
    text: str, sole: str | None
) -> None:
    assert config(text).sole_deployment == sole


def test_gpus_serve_what_the_section_says() -> None:
    nvml = config("nvml: {deployment: rest, deployments: {chat: ['0', GPU-9]}}").nvml
    served = [nvml.deployment_of(*gpu) for gpu in (("0", "GPU-0"), ("1", "GPU-9"), ("2", "GPU-2"))]
    assert served == ["chat", "chat", "rest"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nvml: {deployments: {a: ['0'], b: ['0']}}", "GPU 0 serves two"),
        ("nvml: {interval: 0s}", "longer than 0s"),
        ("nvml: {gpus: -1}", "nvml.gpus"),
        ("processes: {engines: [{match: '('}]}", "not a valid RE2"),
        ("processes: {engines: [{match: '(?P<shard>x)'}]}", "no label of that name: shard"),
        ("processes: {process_names: [x]}", "go into engines"),
        ("nccl_ras: {address: localhost}", "like localhost:28028"),
        ("nccl_ras: [{address: 'a:1'}, {address: 'a:1'}]", "given twice"),
    ],
)
def test_what_is_wrong_is_told_where_it_is(text: str, says: str) -> None:
    with pytest.raises(ConfigFileError, match=says.replace("(", r"\(")):
        config(text)


def test_a_job_of_nccl_is_expected_where_an_address_is_named() -> None:
    found = [
        [(each.address, each.is_named) for each in config(text).nccl_ras]
        for text in (
            "",
            "nccl_ras: {interval: 30s}",
            "nccl_ras: [{address: 'a:1'}, {address: 'b:2'}]",
        )
    ]
    usual = ("localhost:28028", False)
    assert found == [[usual], [usual], [("a:1", True), ("b:2", True)]]


def test_the_readme_shows_sections_that_are_read() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = config(readme.partition("```yaml\n# beside.yml\n")[2].partition("```")[0])
    assert (
        shown.nvml.gpus,
        shown.probe.timeout,
        shown.probe_of(shown.scrape_configs[0]).timeout,
    ) == (8, 5000, 8000)
    assert [each.role for each in shown.processes.engines] == ["worker"]
    assert (len(shown.logs), shown.journal is None, shown.kernel is None) == (1, False, False)
