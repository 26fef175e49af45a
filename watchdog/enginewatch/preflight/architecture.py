"""Does it run on these GPUs: engines by their plans, checkpoints by their format, libraries by
their kernels.

```
enginewatch_target_compute_capability {gpu}            9.0; absent where nobody knows
enginewatch_preflight_gpu_known {gpu}                  1, or 0
enginewatch_preflight_plan_state {engine, what}        1 read, 0 unknown, -1 no engine or damaged
enginewatch_preflight_plan_info {engine, tensorrt, capability, models, folder}   (of rank files)
enginewatch_preflight_engine_on_capability {engine, gpu, by, built, runs}   1 the same, 0 another
enginewatch_preflight_engine_on_model {engine, gpu, by, built}              likewise
enginewatch_engine_needs_gpus                          ranks, one a GPU
enginewatch_preflight_engine_ranks_wrong {folder, missing, extra, needs}    rank files, 0 is right
enginewatch_preflight_engine_parallel {engine, of, built, asked, launch}    1 the same, 0 another
enginewatch_engine_cluster_info {cluster_key}
enginewatch_preflight_format_on_gpu {written, format, runtime, gpu, capability, of}  3 to 0
enginewatch_preflight_format_known {written, runtime, of}                   1, or 0
enginewatch_preflight_library_on_gpu {library, package, gpu, capability}    2 code, 1 PTX, 0 none
```

`by` is `plan` or `stamp`. The grades of a format are those of `formats.Support`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.capability import Capability
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.formats import RUNTIMES, format_of, written_format
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.readers.engine_dir import EngineDir
from enginewatch.preflight.readers.gpu_code import GpuCode
from enginewatch.preflight.readers.gpu_target import Form
from enginewatch.preflight.readers.plan import Kind, Plan
from enginewatch.preflight.targets import Target, runtimes, targets

_PREFIX: Final = "enginewatch_preflight_"
_CODE, _PTX = 2, 1
_RANK_FILE: Final = re.compile(r"(?:^|/)rank\d+\.engine$")


class Built(NamedTuple):
    """What an engine was built on, and who says so."""

    engine: str
    by: str
    capability: Capability
    models: tuple[str, ...]
    evidence: Evidence


def samples(facts: Facts) -> Iterator[Observed]:
    """The series above, for every engine, checkpoint and library on every target GPU."""
    found = tuple(targets(facts))
    yield from _targets(found)
    for engine in facts.engines:
        yield from _engine(engine)
        yield from _parallel(engine, facts)
        yield from _plans(tuple(engine.plans), engine.where, found)
    for repository in facts.repositories:
        for model in repository.models:
            yield from _plans(model.plans, model.where, found)
    yield from _formats(facts, found)
    yield from _libraries(facts.libraries, found)


def _targets(found: Sequence[Target]) -> Iterator[Observed]:
    for each in found:
        told = f"compute capability {each.capability}" if each.capability else "not in the table"
        evidence = Evidence(each.where, 0, f"{each.gpu}: {told}")
        yield observed(f"{_PREFIX}gpu_known", each.capability is not None, evidence, gpu=each.gpu)
        if each.capability is not None:
            value = each.capability.major + each.capability.minor / 10
            yield observed("enginewatch_target_compute_capability", value, gpu=each.gpu)


def _engine(engine: EngineDir) -> Iterator[Observed]:
    """Of the directory as a whole."""
    needs, ranks = engine.world_size, len(engine.ranks)
    said = f"tensor parallel {engine.mapping('tp_size')}, pipeline parallel "
    said += f"{engine.mapping('pp_size') or 1}; {ranks} rank files"
    evidence = Evidence(f"{engine.where}/config.json", 0, said)
    if needs:
        yield observed("enginewatch_engine_needs_gpus", needs, evidence)
    # Without the configuration's word a gap between rank files still tells that one is missing.
    needs = needs or max(engine.ranks, default=-1) + 1
    if needs and (engine.is_trtllm or engine.ranks):
        lacks = [str(rank) for rank in range(min(needs, 4_096)) if rank not in engine.ranks]
        more = [str(rank) for rank in sorted(engine.ranks) if rank >= needs]
        yield observed(
            f"{_PREFIX}engine_ranks_wrong",
            len(lacks) + len(more),
            evidence,
            folder=engine.where,
            missing=" ".join(lacks[:16]),
            extra=" ".join(more[:16]),
            needs=needs,
        )
    if engine.cluster_key:
        evidence = evidence._replace(text=f"auto_parallel_config.cluster_key {engine.cluster_key}")
        yield observed(
            "enginewatch_engine_cluster_info", 1, evidence, cluster_key=engine.cluster_key
        )


def _parallel(engine: EngineDir, facts: Facts) -> Iterator[Observed]:
    """What the engine was split into beside what a command that serves it starts."""
    for launch in facts.launches:
        if not launch.serves_engine:
            continue
        tensor, pipeline = launch.number("tensor_parallel"), launch.number("pipeline_parallel")
        # Triton starts ranks, and leaves it to the engine what they split.
        if launch.runtime == "triton":
            asked = {"ranks": (engine.world_size, launch.ranks or tensor)}
        else:
            asked = {
                "tensor parallel": (engine.mapping("tp_size"), tensor),
                "pipeline parallel": (engine.mapping("pp_size"), pipeline),
                "ranks": (engine.world_size, launch.ranks),
            }
        for what, (built, started) in asked.items():
            if built is None or started is None:
                continue
            yield observed(
                f"{_PREFIX}engine_parallel",
                built == started,
                Evidence(launch.where, 0, launch.command),
                engine=engine.where,
                of=what,
                built=built,
                asked=int(started),
                launch=launch.where,
            )


def _plans(plans: Sequence[Plan], folder: str, found: Sequence[Target]) -> Iterator[Observed]:
    """Of each plan what is known; against the GPUs those together that were built alike."""
    alike: dict[tuple[Capability, tuple[str, ...]], list[Plan]] = {}
    for plan in plans:
        evidence = Evidence(plan.where, 0, _told(plan))
        good = plan.kind is Kind.ENGINE and plan.device is not None
        state = 1 if good else 0 if plan.kind in (Kind.ENGINE, Kind.UNKNOWN) else -1
        what = plan.problem if not good else ""
        yield observed(f"{_PREFIX}plan_state", state, evidence, engine=plan.where, what=what)
        if plan.device is None:
            continue
        alike.setdefault((plan.device.capability, plan.models), []).append(plan)
        yield observed(
            f"{_PREFIX}plan_info",
            1,
            engine=plan.where,
            folder=folder if _RANK_FILE.search(plan.where) else "",
            tensorrt=plan.tensorrt,
            capability=plan.device.capability,
            models=", ".join(plan.models),
        )
    for (capability, models), together in alike.items():
        first = together[0]
        more = f" (and {len(together) - 1} more like it)" if len(together) > 1 else ""
        evidence = Evidence(first.where, 0, _told(first) + more)
        engine = folder if len(together) > 1 else first.where
        yield from on_targets(Built(engine, "plan", capability, models, evidence), found)


def on_targets(built: Built, found: Iterable[Target]) -> Iterator[Observed]:
    """What an engine was built on beside each GPU that is to run it."""
    for target in found:
        if target.capability is None:
            continue
        same = built.capability == target.capability
        labels = {"engine": built.engine, "gpu": target.gpu, "by": built.by}
        yield observed(
            f"{_PREFIX}engine_on_capability",
            same,
            built.evidence,
            **labels,
            built=built.capability,
            runs=target.capability,
        )
        if same and target.model and built.models:
            yield observed(
                f"{_PREFIX}engine_on_model",
                target.model in built.models,
                built.evidence,
                **labels,
                built=", ".join(built.models),
            )


def _told(plan: Plan) -> str:
    parts = [f"TensorRT {plan.tensorrt}" if plan.tensorrt else "TensorRT version not known"]
    if plan.device is not None:
        parts.append(f"built on compute capability {plan.device.capability}")
    if plan.multiprocessors is not None:
        parts.append(f"{plan.multiprocessors} SMs ({', '.join(plan.models)})")
    if plan.problem:
        parts.append(plan.problem)
    return ", ".join(parts)


def _formats(facts: Facts, found: Sequence[Target]) -> Iterator[Observed]:
    for written, of, where, runs in _written(facts):
        evidence = Evidence(where, 0, f"number format {written}")
        yield observed("enginewatch_checkpoint_format_info", 1, evidence, format=written, of=of)
        for runtime in runs or RUNTIMES:
            row = format_of(written, runtime)
            labels = {"written": written, "runtime": runtime, "of": of}
            if runs:
                yield observed(f"{_PREFIX}format_known", row is not None, evidence, **labels)
            for target in found if row else ():
                if row is None or target.capability is None:
                    continue
                more = {"gpu": target.gpu, "capability": target.capability}
                more |= {"format": row.name} if runs else {"assumed": "yes"}
                grade = row.support(target.capability)
                yield observed(f"{_PREFIX}format_on_gpu", grade, evidence, **labels, **more)


def _written(facts: Facts) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Each format, what it is the format of, where it stands, and the runtimes that meet it."""
    known = tuple(runtime for runtime in runtimes(facts) if runtime in RUNTIMES)
    for checkpoint in facts.checkpoints:
        own = checkpoint.quantization
        if own is not None and own.written:
            yield written_format(own), checkpoint.where, own.where, known
        elif checkpoint.dtype:
            yield checkpoint.dtype, checkpoint.where, f"{checkpoint.where}/config.json", known
    for engine in facts.engines:
        if engine.format:
            yield engine.format, engine.where, f"{engine.where}/config.json", ("trtllm",)
    for launch in facts.launches:
        written = launch.text("quantization")
        if written and launch.runtime in RUNTIMES:
            where = launch.where_of("quantization")
            yield written, launch.where, where, (launch.runtime,)


def _libraries(codes: Iterable[GpuCode], found: Sequence[Target]) -> Iterator[Observed]:
    for code in codes:
        if not code.targets:
            continue
        names = ", ".join(sorted(map(str, code.targets)))
        evidence = Evidence(code.where, 0, f"holds {names}")
        wheel, _, member = code.where.partition("!")
        package = wheel if member else code.where.rpartition("/")[0] or "."
        for target in found:
            grade = _grade(code, target)
            if grade is None:
                continue
            yield observed(
                f"{_PREFIX}library_on_gpu",
                grade,
                evidence,
                library=code.where,
                package=package,
                gpu=target.gpu,
                capability=target.capability,
            )


def _grade(code: GpuCode, target: Target) -> int | None:
    """None where that can't be said: an unknown GPU, code of an unknown variant, a bad file."""
    if target.capability is None:
        return None
    answers = {
        (each.form, each.loads_on(target.capability, tegra=target.is_tegra))
        for each in code.targets
    }
    if (Form.SASS, True) in answers:
        return _CODE
    if any(answer is None for _, answer in answers):
        return None
    if (Form.PTX, True) in answers:
        return _PTX
    return None if code.problem else 0
