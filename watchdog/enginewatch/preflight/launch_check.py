"""What is wrong with a command itself: `enginewatch_preflight_launch_problem` and its kin."""

from __future__ import annotations

from collections.abc import Iterator

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.readers.launch import Launch


def samples(facts: Facts) -> Iterator[Observed]:
    """One for each problem of a command, by its `kind`; one for each launch; and of containers
    the GPUs that they ask for, where the command says how many it needs."""
    versions = {each.name: each.version for each in facts.versions}
    for launch in facts.launches:
        evidence = Evidence(launch.where, 0, launch.command)
        yield observed(
            "enginewatch_preflight_launch_info",
            1,
            evidence,
            launch=launch.where,
            launcher=launch.launcher,
            runtime=launch.runtime,
            version=versions.get(launch.runtime, ""),
        )
        if not launch.problems:  # a command without any has been looked at, too
            yield observed("enginewatch_preflight_launch_problem", 0, kind="none")
        for problem in launch.problems:
            yield observed(
                "enginewatch_preflight_launch_problem",
                1,
                Evidence(problem.where, 0, problem.detail or problem.text),
                kind=problem.kind,
                text=problem.text,
                near=problem.near,
                detail=problem.detail,
                launcher=launch.launcher,
                where=problem.where,
            )
        yield from _container(launch, evidence)


def _container(launch: Launch, evidence: Evidence) -> Iterator[Observed]:
    container = launch.container
    if container is None:
        return
    labels = {"launch": launch.where, "container": container.name or container.image}
    needs = launch.count("tensor_parallel") * launch.count("pipeline_parallel")
    if container.gpus is not None and container.gpus >= 0:
        yield observed("enginewatch_preflight_container_gpus", container.gpus, evidence, **labels)
        yield observed("enginewatch_preflight_container_needs_gpus", needs, evidence, **labels)
    if needs > 1:
        shared = -1 if container.shares_ipc else container.shm_bytes
        yield observed(
            "enginewatch_preflight_container_shm_bytes",
            64 * 2**20 if shared is None else shared,
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
