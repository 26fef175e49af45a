"""The GPUs that will serve, as the `enginewatch_target_*` series that `diagnose` has too.

Each carries the label `gpu`, the model's name, so that a mixed fleet has one series a model.
"""

from __future__ import annotations

from collections.abc import Iterator

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed


def samples(facts: Facts) -> Iterator[Observed]:
    """`enginewatch_target_gpus` (how many of the model), `…_gpu_info`, `…_visible_gpus` (of all
    models, without `gpu`), `…_gpu_memory_bytes`; capabilities are the architecture check's."""
    for each in facts.gpus:
        evidence = Evidence(each.where, 0, f"{each.count} x {each.model}")
        yield observed("enginewatch_target_gpus", each.count, evidence, gpu=each.model)
        yield observed("enginewatch_target_gpu_info", 1, gpu=each.model)
        if each.memory is not None:
            yield observed("enginewatch_target_gpu_memory_bytes", each.memory, gpu=each.model)
    if facts.gpus:
        total = sum(each.count for each in facts.gpus)
        yield observed("enginewatch_target_visible_gpus", total)
