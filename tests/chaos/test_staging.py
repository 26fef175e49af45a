"""Target files: what they may say, and what is refused whatever they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chaos.world import World

from enginechaos import staging
from enginechaos.actors import actor_of
from enginechaos.errors import ChaosError, Refused, TargetError
from enginechaos.external import open_target

WHOLE: dict[str, Any] = {
    "environment": "staging",
    "name": "chat-staging",
    "deployment": "chat-staging",
    "engine": {"url": "http://127.0.0.1:1", "model": "m"},
    "act": {"kind": "local"},
    "watchdog": {"start": True},
}


def written(folder: Path, settings: Any) -> Path:
    path = folder / "staging.yml"
    path.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))
    return path


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("- a list", "not a target file: it has no keys"),
        ("a: [", "staging.yml:1: not YAML"),
        ({**WHOLE, "deploymnt": "x"}, "deploymnt: unknown key (did you mean 'deployment'?)"),
        ({**WHOLE, "act": {"kind": "local", "prt": 1}}, "act.prt: unknown key"),
        ({**WHOLE, "act": {"kind": "kubectl"}}, "kind kubectl needs a pod"),
        ({**WHOLE, "watchdog": {}}, "watchdog: give url, or start: true"),
        ({**WHOLE, "tier": "sim"}, "tier 'sim' is none of vllm-cpu, gpu, staging"),
        ({**WHOLE, "limits": {"fault": 0}}, "limits.fault: Input should be greater than 0"),
        ({**WHOLE, "abort_when": [{"query": "x"}]}, "abort_when.0: give above or below"),
        ({**WHOLE, "processes": {"boss": "x"}}, "processes: no role 'boss'"),
        ({k: v for k, v in WHOLE.items() if k != "name"}, "name: is missing"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, settings: Any, says: str) -> None:
    with pytest.raises(TargetError) as failure:
        staging.read(written(tmp_path, settings))
    assert says in str(failure.value)
    assert "staging.yml" in str(failure.value)


@pytest.mark.parametrize(
    ("changes", "typed", "says"),
    [
        ({"environment": "production"}, "chat-staging", "environment 'production'"),
        ({"environment": "prod-eu"}, "chat-staging", "environment 'prod-eu'"),
        ({"name": "chat-prod"}, "chat-prod", "name 'chat-prod' looks like production"),
        ({"deployment": "live/chat"}, "chat-staging", "deployment 'live/chat' looks like"),
        (
            {"act": {"kind": "kubectl", "pod": "a", "context": "prod-eu-1"}},
            "chat-staging",
            "act.context 'prod-eu-1' looks like production",
        ),
        ({}, None, "nothing was typed"),
        ({}, "chat", "'chat' was typed"),
    ],
)
def test_production_is_refused(
    tmp_path: Path, changes: dict[str, Any], typed: str | None, says: str
) -> None:
    file = staging.read(written(tmp_path, {**WHOLE, **changes}))
    with pytest.raises(Refused) as failure:
        staging.refuse_production(file, typed, "staging.yml")
    assert says in str(failure.value)


def test_names_that_only_sound_alike_are_fine(tmp_path: Path) -> None:
    for name in ("product-search", "alive", "reproduce"):
        file = staging.read(written(tmp_path, {**WHOLE, "name": name, "deployment": name}))
        staging.refuse_production(file, name, "staging.yml")


def test_the_endpoints_own_labels_count(tmp_path: Path, world: World) -> None:
    file = staging.read(world.write(tmp_path / "staging.yml"))
    assert open_target(file).ranks() == world.engine.ranks
    world.engine.page = 'vllm:num_requests_running{model_name="m",env="production"} 0\n'
    with pytest.raises(Refused, match='has the label env="production"'):
        open_target(file)


def test_a_target_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"127.0.0.1:1/metrics: can't be reached"):
        open_target(staging.read(written(tmp_path, WHOLE)))


@pytest.mark.parametrize("kind", ["ssh", "docker"])
def test_what_is_not_offered_is_refused_with_what_is(kind: str) -> None:
    with pytest.raises(ChaosError, match=f"acting through {kind} is not offered"):
        actor_of({"kind": kind, "host": "x"})


def test_the_readme_shows_a_file_that_is_read(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("```yaml\n# staging.yml\n")[2].partition("```")[0]
    file = staging.read(written(tmp_path, shown))
    staging.refuse_production(file, "chat-staging", "README.md")
    assert file.run_seconds == 1800
