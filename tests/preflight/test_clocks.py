"""Clocks: ways in, versions, and what a container's notes and probes come to."""

from __future__ import annotations

import pytest

from enginewatch.preflight.facts import Facts
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.readers.fronts import read_fronts
from enginewatch.preflight.readers.yamldata import read_yaml
from enginewatch.preflight.release import is_older, release_of
from enginewatch.preflight.timeouts import known_variables, samples


def command(text: str, **more: str) -> Facts:
    given = {"--command": (text,), **{f"--{name}": (value,) for name, value in more.items()}}
    return gather(Inputs(given))


def clocks(facts: Facts) -> dict[str, float]:
    return {
        each.labels["clock"]: each.value
        for each in samples(facts)
        if each.name == "enginewatch_preflight_clock_seconds"
    }


@pytest.mark.parametrize(
    ("document", "seconds"),
    [
        ("kind: Ingress\nspec: {ingressClassName: nginx}", [60]),
        (
            (
                "{kind: Ingress, metadata: {annotations: "
                "{nginx.ingress.kubernetes.io/proxy-read-timeout: '900'}}}"
            ),
            [900],
        ),
        ("kind: Ingress\nspec: {ingressClassName: alb}", []),
        ("kind: HTTPRoute\nspec: {rules: [{timeouts: {request: 5m}}, {}]}", [300]),
        ("kind: VirtualService\nspec: {http: [{timeout: 10s}]}", [10]),
        ("kind: BackendConfig\nspec: {timeoutSec: 40}", [40]),
        ("kind: BackendConfig\nspec: {timeoutSec: soon}", []),
        ("kind: Service\nspec: {timeout: 10s}", []),
        ("[]", []),
    ],
)
def test_ways_in(document: str, seconds: list[float]) -> None:
    assert [
        each.timeout_s for each in read_fronts(read_yaml(document, "m.yml"), "m.yml")
    ] == seconds


def test_defaults_give_way_to_what_is_set() -> None:
    found = clocks(command("vllm serve m -tp 2"))
    assert found == {"step": 300, "ready": 600, "stall_told": 60, "collective": 600}
    text = "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=40 vllm serve m --distributed-timeout-seconds 30"
    assert clocks(command(text))["step"] == 40
    assert clocks(command(text))["collective"] == 30
    sglang = "python3 -m sglang.launch_server --model m --watchdog-timeout 1000"
    assert clocks(command(sglang))["step"] == 1000


@pytest.mark.parametrize(
    ("text", "runtime", "release"),
    [
        ("vllm serve m", "vllm=0.10.2", (0, 10, 2)),
        ("vllm serve m", "sglang=0.5", ()),
        ("docker run vllm/vllm-openai:v0.11.0 --model m", "cuda=13.1", (0, 11, 0)),
        ("docker run vllm/vllm-openai:v0.11.0 --model m", "vllm=0.12.0", (0, 12, 0)),
        ("docker run vllm/vllm-openai:latest --model m", "cuda=13.1", ()),
    ],
)
def test_the_version_that_will_run(text: str, runtime: str, release: tuple[int, ...]) -> None:
    facts = command(text, runtime=runtime)
    assert release_of(facts.launches[0], facts) == release


def test_an_unknown_version_is_older_than_nothing() -> None:
    assert is_older((0, 8, 5), "0.10")
    assert not is_older((0, 10), "0.10")
    assert not is_older((), "0.10")
    assert not is_older((0, 10), "")


def test_the_table_names_each_variable_once_with_a_remedy_where_it_is_gone() -> None:
    for variable in known_variables().values():
        assert not (variable.clock and variable.removed), variable.name
        assert variable.removed != "never" or variable.instead, variable.name


def test_a_secret_in_a_variable_is_not_shown() -> None:
    text = "VLLM_API_KEYS=sk-0123456789abcdef0123 vllm serve m"
    found = [each for each in samples(command(text)) if each.labels.get("setting")]
    assert found
    assert not any("sk-0123" in each.evidence.text for each in found if each.evidence)
