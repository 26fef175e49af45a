"""What is wrong with a command itself: `enginewatch_preflight_launch_problem` and its kin."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from enginewatch.evidence.redact import redact
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.readers.flags import Problem, flag_table
from enginewatch.preflight.readers.launch import Launch, known_launchers
from enginewatch.preflight.release import Release, is_older, release_of

_DEFAULT_SHM: Final = 64 << 20
"""Bytes of /dev/shm where nothing asks for more (docker run's manual, --shm-size; containerd)."""
_VISIBLE: Final = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_NO_GPU: Final = frozenset({"", "-1", "none", "void", "NoDevFiles"})
_SIZES: Final = ("tensor_parallel", "pipeline_parallel")
_NUMBERS: Final = (
    *_SIZES,
    "data_parallel",
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "free_gpu_memory_fraction",
    "mem_fraction_static",
)
_WORDS: Final = ("model", "gemm_plugin", "quantization", "kv_cache_dtype", "backend")


def samples(facts: Facts) -> Iterator[Observed]:
    """`enginewatch_preflight_…`, by `launch`:

    ```
    launch_info {launcher, runtime, version}         1
    launch_problem {kind, text, near, detail, …}     1 for each
    launch_setting {setting, flag, runtime}          as given; launch_setting_info for words
    launch_visible_gpus                              what CUDA_VISIBLE_DEVICES leaves
    container_gpus, container_needs_gpus {container} as asked for, as the command needs
    container_shm_bytes {container}                  of /dev/shm, -1 the host's
    container_unknown {container, what}              1 for each
    ```
    """
    for launch in facts.launches:
        version = release_of(launch, facts)
        evidence = Evidence(launch.where, 0, launch.command)
        yield observed(
            "enginewatch_preflight_launch_info",
            1,
            evidence,
            launch=launch.where,
            launcher=launch.launcher,
            runtime=launch.runtime,
            version=".".join(map(str, version)),
        )
        yield from _settings(launch)
        yield from _visible(launch)
        for problem in _problems(launch, version):
            yield observed(
                "enginewatch_preflight_launch_problem",
                1,
                Evidence(problem.where, 0, redact(problem.detail or problem.text)),
                kind=problem.kind,
                text=redact(problem.text),
                near=redact(problem.near),
                detail=redact(problem.detail),
                launcher=launch.launcher,
                where=problem.where,
            )
        yield from _container(launch, evidence)


def _settings(launch: Launch) -> Iterator[Observed]:
    """Settings that are words or numbers, for rules about one of them."""
    for name in _NUMBERS:
        number = launch.number(name)
        if number is not None:
            given = launch.settings[name]
            yield observed(
                "enginewatch_preflight_launch_setting",
                number,
                Evidence(given.where, 0, f"{given.by} {given.value}"),
                launch=launch.where,
                runtime=launch.runtime,
                setting=name,
                flag=given.by,
            )
    for name in _WORDS:
        value = launch.text(name)
        if value:
            given = launch.settings[name]
            yield observed(
                "enginewatch_preflight_launch_setting_info",
                1,
                Evidence(given.where, 0, f"{given.by} {value}"),
                launch=launch.where,
                launcher=launch.launcher,
                setting=name,
                value=value,
            )


def _visible(launch: Launch) -> Iterator[Observed]:
    """`enginewatch_preflight_launch_visible_gpus`, by the variables that hide the others.

    Of an engine on several machines each variable tells the GPUs of one, so nothing is told.
    """
    backend = launch.flags.get("--distributed-executor-backend")
    if launch.count("nodes") > 1 or (backend is not None and backend.value == "ray"):
        return
    for name in _VISIBLE:
        given = launch.env.get(name)
        if given is None or not isinstance(given.value, str) or given.value == "all":
            continue
        # CUDA passes over what stands behind the first entry that is no GPU.
        seen = takewhile(lambda gpu: gpu not in _NO_GPU, given.value.replace(" ", "").split(","))
        yield observed(
            "enginewatch_preflight_launch_visible_gpus",
            len(list(seen)),
            Evidence(given.where, 0, f"{name}={given.value}"),
            launch=launch.where,
        )


def _problems(launch: Launch, version: Release) -> Iterator[Problem]:
    """Those of the command; flags that are gone, or not there yet, in this version alone."""
    for problem in launch.problems:
        gone = problem.kind in {"removed_flag", "removed_key"}
        if not (gone and is_older(version, problem.detail)):
            yield problem
    table = next((each.flags for each in known_launchers() if each.name == launch.launcher), "")
    if not table or not version:
        return
    for name, given in launch.flags.items():
        flag = flag_table(table).by_name.get(name)
        if flag is not None and is_older(version, flag.since):
            yield Problem("newer_flag", given.by, given.where, detail=flag.since)


def _container(launch: Launch, evidence: Evidence) -> Iterator[Observed]:
    container = launch.container
    if container is None:
        return
    labels = {"launch": launch.where, "container": container.name or container.image}
    is_told = all(map(launch.is_told, _SIZES))
    needs = math.prod(map(launch.count, _SIZES)) if is_told else 0
    if is_told and container.gpus is not None and container.gpus >= 0:
        yield observed("enginewatch_preflight_container_gpus", container.gpus, evidence, **labels)
        yield observed("enginewatch_preflight_container_needs_gpus", needs, evidence, **labels)
    if needs > 1:
        shared = -1 if container.shares_ipc else container.shm_bytes
        yield observed(
            "enginewatch_preflight_container_shm_bytes",
            _DEFAULT_SHM if shared is None else shared,
            evidence,
            **labels,
        )
    for note in container.notes:
        yield observed(
            "enginewatch_preflight_container_unknown",
            1,
            Evidence(container.where, 0, note),
            what=note,
            **labels,
        )
