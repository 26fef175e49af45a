"""Do the versions fit: engines and their runtime, containers and what is in them, CUDA and driver.

```
enginewatch_preflight_engine_version {of, engine, built, runs, at}     1 the same, 0 another
enginewatch_preflight_engine_version_known {of, engine, built}         1, 0 with nothing to compare
enginewatch_preflight_pin {image, name, pinned, found, at, elsewhere}  1 as pinned, 0 not
enginewatch_preflight_image_driver {image, pinned, found, at}          1 at least that, 0 older
enginewatch_preflight_tags_differ {tag, name, one, other}              1 the same, 0 not
enginewatch_preflight_need {need, of, needs, least, below, found, grade, why, at}  1 met, 0 not
enginewatch_preflight_cuda_major {major, of}                           1
enginewatch_preflight_cuda_for_gpu {cuda, gpu, capability, least, at}  1 compiles for it, 0 not
```

`elsewhere` is the family of images whose tag of that month has the version that was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Final

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.devices import shipped_devices
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.pins import Image, families, image_of, needs, numbers, same
from enginewatch.preflight.readers.engine_dir import EngineDir
from enginewatch.preflight.readers.versions import HERE, Version
from enginewatch.preflight.targets import targets

_PREFIX: Final = "enginewatch_preflight_"
_LOCAL: Final = re.compile(r"\+(?:\w*\.)?cu(\d{2})(\d)")
_CUDA_WHEEL: Final = re.compile(r"nvidia-[\w-]+-cu(\d{2})")
_WITH_CUDA: Final = ("torch", "vllm", "sglang", "sgl-kernel", "flashinfer-python")


def samples(facts: Facts) -> Iterator[Observed]:
    """The series above."""
    images = tuple(_images(facts))
    known = known_versions(facts)
    yield from _engines(facts, known)
    yield from _pinned(facts, images)
    yield from _tags(images)
    yield from _needs(facts, known)
    yield from _toolkits(facts, known)


def known_versions(facts: Facts) -> tuple[Version, ...]:
    """Of what will serve; the first of a name counts."""
    return tuple(_known(facts, tuple(_images(facts))))


def _images(facts: Facts) -> Iterator[tuple[Image, str]]:
    """Those whose names tell something, and where they stand."""
    seen: set[str] = set()
    containers = [*facts.workloads, *(launch.container for launch in facts.launches)]
    for workload in containers:
        if workload is None or workload.image in seen:
            continue
        seen.add(workload.image)
        found = image_of(workload.image)
        if found is not None:
            yield found, workload.where


def _known(facts: Facts, images: tuple[tuple[Image, str], ...]) -> Iterator[Version]:
    """The first of a name counts: declared, then installed or frozen, then what an image pins.

    What is installed here says nothing of a container that was named.
    """
    for version in facts.versions:
        if not (images and version.where == HERE):
            yield version
    for gpus in facts.gpus:
        if gpus.driver:
            yield Version("driver", gpus.driver, gpus.where)
    for image, where in images:
        for name, pinned in image.versions.items():
            # The driver that an image brings is not the one of the host.
            if name != "driver":
                yield Version(name, pinned, where)


def _of(known: tuple[Version, ...], name: str) -> Version | None:
    return next((version for version in known if version.name == name), None)


def _engines(facts: Facts, known: tuple[Version, ...]) -> Iterator[Observed]:
    for engine in facts.engines:
        if engine.trtllm:
            evidence = Evidence(f"{engine.where}/config.json", 0, f"version {engine.trtllm}")
            own = ("TensorRT-LLM", engine.where, engine.trtllm)
            yield from _compared(*own, _of(known, "tensorrt-llm"), evidence)
        yield from _plans(engine.where, _built(engine), known)
    for repository in facts.repositories:
        for model in repository.models:
            built = {plan.tensorrt: plan.where for plan in model.plans if plan.tensorrt}
            yield from _plans(model.where, built, known)


def _built(engine: EngineDir) -> dict[str, str]:
    """The TensorRT versions of its plans, each with the first plan that has it."""
    found: dict[str, str] = {}
    for plan in engine.plans:
        if plan.tensorrt:
            found.setdefault(plan.tensorrt, plan.where)
    return found


def _plans(engine: str, built: dict[str, str], known: tuple[Version, ...]) -> Iterator[Observed]:
    for version, where in built.items():
        evidence = Evidence(where, 0, f"TensorRT {version}")
        yield from _compared("TensorRT", engine, version, _of(known, "tensorrt"), evidence)


def _compared(
    of: str, engine: str, built: str, runs: Version | None, evidence: Evidence
) -> Iterator[Observed]:
    labels = {"of": of, "engine": engine, "built": built}
    yield observed(f"{_PREFIX}engine_version_known", runs is not None, evidence, **labels)
    if runs is not None:
        yield observed(
            f"{_PREFIX}engine_version",
            same(built, runs.version),
            evidence,
            **labels,
            runs=runs.version,
            at=runs.where,
        )


def _pinned(facts: Facts, images: tuple[tuple[Image, str], ...]) -> Iterator[Observed]:
    """What is said of the runtime beside what its image pins."""
    for image, where in images:
        if not image.family:
            continue
        evidence = Evidence(where, 0, image.reference)
        for version in facts.versions:
            pinned = image.versions.get(version.name)
            if pinned is None or version.name == "driver" or version.where == HERE:
                continue
            others = families(image.tag).items()
            yield observed(
                f"{_PREFIX}pin",
                same(pinned, version.version),
                evidence,
                image=image.reference,
                name=version.name,
                pinned=pinned,
                found=version.version,
                at=version.where,
                elsewhere=next(
                    (
                        family
                        for family, held in others
                        if family != image.family and version.name in held
                        if same(held[version.name], version.version)
                    ),
                    "",
                ),
            )
        driver = _of((*facts.versions, *_drivers(facts)), "driver")
        if driver is not None and "driver" in image.versions:
            pinned = image.versions["driver"]
            yield observed(
                f"{_PREFIX}image_driver",
                numbers(driver.version) >= numbers(pinned),
                evidence,
                image=image.reference,
                pinned=pinned,
                found=driver.version,
                at=driver.where,
            )


def _drivers(facts: Facts) -> Iterator[Version]:
    return (Version("driver", gpus.driver, gpus.where) for gpus in facts.gpus if gpus.driver)


def _tags(images: tuple[tuple[Image, str], ...]) -> Iterator[Observed]:
    """Images of one month and of two families: a tag alone does not say what is in them."""
    for (one, where), (other, _) in combinations(images, 2):
        if not one.tag or one.tag != other.tag or one.family == other.family:
            continue
        for name in sorted({*one.versions} & {*other.versions}):
            yield observed(
                f"{_PREFIX}tags_differ",
                same(one.versions[name], other.versions[name]),
                Evidence(where, 0, f"{one.reference} and {other.reference}"),
                tag=one.tag,
                name=name,
                one=f"{one.versions[name]} with {one.family}",
                other=f"{other.versions[name]} with {other.family}",
            )


def _needs(facts: Facts, known: tuple[Version, ...]) -> Iterator[Observed]:
    models = {target.model for target in targets(facts)}
    serves_engines = any(engine.is_trtllm for engine in facts.engines)
    for need in needs():
        of, found = _of(known, need.of), _of(known, need.needs)
        meant = (
            (need.of == "gpu" and need.model in models)
            or (need.of == "engine" and serves_engines)
            or (of is not None and need.concerns(of.version))
        )
        if not meant or found is None:
            continue
        yield observed(
            f"{_PREFIX}need",
            need.met(found.version),
            Evidence(found.where, 0, f"{found.name} {found.version}"),
            need=need.name,
            of=f"{need.of} {of.version}" if of is not None else need.model or need.of,
            needs=need.needs,
            asked=f"at least {need.least}" if need.least else f"below {need.below}",
            found=found.version,
            grade=need.grade,
            why=need.why,
        )


def _toolkits(facts: Facts, known: tuple[Version, ...]) -> Iterator[Observed]:
    """Which CUDA what is installed was compiled with, and whether that compiles for the GPUs."""
    cudas: dict[str, Version] = {}
    for version in facts.versions:
        local = _LOCAL.search(version.version)
        wheel = _CUDA_WHEEL.fullmatch(version.name)
        major = local[1] if local else wheel[1] if wheel else ""
        if major:
            text = f"{version.name} {version.version}"
            evidence = Evidence(version.where, 0, text)
            yield observed(f"{_PREFIX}cuda_major", 1, evidence, major=major, of=text)
        if local and version.name in _WITH_CUDA:
            cudas.setdefault(f"{local[1]}.{local[2]}", version)
    told = _of(known, "cuda")
    if told is not None:
        cudas.setdefault(".".join(map(str, numbers(told.version)[:2])), told)
    for cuda, version in cudas.items():
        for target in targets(facts):
            row = target.capability and shipped_devices().architectures.get(target.capability)
            if row:
                yield observed(
                    f"{_PREFIX}cuda_for_gpu",
                    numbers(cuda) >= numbers(row.cuda),
                    Evidence(version.where, 0, f"{version.name} {version.version}"),
                    cuda=cuda,
                    gpu=target.gpu,
                    capability=target.capability,
                    least=row.cuda,
                )
