"""The examples of deploy/: YAML that parses, with commands that the real command line takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from enginewatch.cli import command_line
from enginewatch.preflight.accept import read_accepted
from enginewatch.preflight.judge import shipped_preflight

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.suffix in {".yml", ".yaml"})
VALUES = {"image": "enginewatch:1", "gpus": "4xH200", "runtime": "vllm=0.11.0", "claim": "models"}


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(node: Any) -> Iterator[list[str]]:
    """Every call of enginewatch in a document: containers' command and args, and shell lines."""
    if isinstance(node, dict):
        command = node.get("command")
        if isinstance(command, list) and command[:1] == ["enginewatch"]:
            yield [rendered(word) for word in (*command, *node.get("args", ()))]
        for value in node.values():
            yield from commands(value)
    elif isinstance(node, list):
        for value in node:
            yield from commands(value)
    elif isinstance(node, str) and node.startswith("enginewatch "):
        yield shlex.split(node.partition(" > ")[0])


def rendered(text: str) -> str:
    return re.sub(r"{{ \.Values\.preflight\.(\w+) }}", lambda found: VALUES[found[1]], text)


def parsed(words: list[str]) -> dict[str, Any]:
    """The parameters that the command line makes of them; raises for what it does not know."""
    group: Any = typer.main.get_command(command_line())
    assert words[0] == "enginewatch"
    command = group.commands[words[1]]
    with command.make_context(words[1], words[2:]) as context:
        params: dict[str, Any] = context.params
        return params


def test_all_four_are_there() -> None:
    assert {path.name for path in FILES} == {
        "github-actions.yml",
        "gitlab-ci.yml",
        "kubernetes-init-container.yml",
        "preflight-hook.yaml",
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_is_one_that_exists(path: Path) -> None:
    found = list(commands(loaded(path)))
    assert found
    for words in found:
        required = parsed(words)["require"] or ()
        assert set(required) <= set(shipped_preflight().checks)


def test_the_parser_refuses_what_does_not_exist() -> None:
    with pytest.raises(Exception, match="No such option: --engine"):
        parsed(["enginewatch", "preflight", "--engine", "x"])


def test_kubernetes_objects_say_what_they_are() -> None:
    deployment = loaded(DEPLOY / "kubernetes-init-container.yml")
    pod = deployment["spec"]["template"]["spec"]
    assert deployment["kind"] == "Deployment"
    init, engine = pod["initContainers"][0], pod["containers"][0]
    assert init["resources"] == engine["resources"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for each in (init, engine) for mount in each["volumeMounts"]} <= volumes


def test_the_helm_hook_runs_before_anything_and_once() -> None:
    job = loaded(DEPLOY / "helm" / "templates" / "preflight-hook.yaml")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["backoffLimit"] == 0
    text = (DEPLOY / "helm" / "templates" / "preflight-hook.yaml").read_text()
    assert set(re.findall(r"\.Values\.preflight\.(\w+)", text)) == set(VALUES)


def test_the_file_of_acceptances_in_the_page_can_be_read() -> None:
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert read_accepted(block, "accepted.yml", shipped_preflight().codes)
