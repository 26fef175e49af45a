"""Models of a Triton repository, as the server will try to load them.

```
enginewatch_preflight_triton_versions {model}              folders with a number for a name
enginewatch_preflight_triton_engine_path {model, key}      1 filled in, 0 still a placeholder
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
    if not model.is_trtllm:
        return
    for key in ENGINE_KEYS:
        filled = key in model.parameters
        if filled or key in model.unset:
            yield observed(f"{_PREFIX}engine_path", filled, evidence, model=model.name, key=key)
    if model.instances is not None:
        yield observed(f"{_PREFIX}engine_instances", model.instances, evidence, model=model.name)
