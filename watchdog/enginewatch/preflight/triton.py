"""Models of a Triton repository, as the server will try to load them.

```
enginewatch_preflight_triton_versions {model}              folders with a number for a name
enginewatch_preflight_triton_plans {model}                 of the versions that are served
enginewatch_preflight_triton_engine_path {model, key}      1 filled in, 0 missing or a placeholder
enginewatch_preflight_triton_engine_instances {model}      how often it loads its engine
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.readers.repository import ENGINE_KEYS, TritonModel

_PREFIX: Final = "enginewatch_preflight_triton_"


def samples(facts: Facts) -> Iterator[Observed]:
    """The series above, for every model of every repository."""
    for repository in facts.repositories:
        for model in repository.models:
            yield from _model(model)


def _model(model: TritonModel) -> Iterator[Observed]:
    evidence = Evidence(
        model.where, 0, f"model {model.name}, backend {model.backend or 'not said'}"
    )
    count = len(model.versions)
    yield observed(f"{_PREFIX}versions", count, evidence, model=model.name)
    if model.backend == "tensorrt":
        yield observed(f"{_PREFIX}plans", len(model.plans), evidence, model=model.name)
    if not model.is_trtllm:
        return
    # A model that names no engine at all lacks the parameter that the backend's template has.
    named = [key for key in ENGINE_KEYS if model.parameters.get(key)]
    for key in dict.fromkeys((*named, *(key for key in ENGINE_KEYS if key in model.unset))):
        yield observed(f"{_PREFIX}engine_path", key in named, evidence, model=model.name, key=key)
    if not named and ENGINE_KEYS[0] not in model.unset:
        yield observed(f"{_PREFIX}engine_path", 0, evidence, model=model.name, key=ENGINE_KEYS[0])
    if model.instances is not None:
        yield observed(f"{_PREFIX}engine_instances", model.instances, evidence, model=model.name)
