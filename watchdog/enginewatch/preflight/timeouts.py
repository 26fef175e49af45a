"""The clocks of a deployment, each with what sets it: who gives up first when something hangs.

From the inside out: a collective, a step, the engine's start, the orchestrator's probes, the
way in (a load balancer). Samples only; `rules/preflight/timeouts.yml` knows the right order.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from enginewatch.evidence.redact import redact
from enginewatch.evidence.tables import load_table
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.readers.flags import Given
from enginewatch.preflight.readers.launch import Launch
from enginewatch.preflight.readers.workload import Workload
from enginewatch.preflight.release import Release, is_older, release_of
from enginewatch.rulepack import rules_path

_CLOCK: Final = "enginewatch_preflight_clock_seconds"
_OWNED: Final = ("VLLM_",)
"""Beginnings of names that one program alone reads, so that an unknown one is a mistake."""


class _Clock(NamedTuple):
    """A row of `rules/compat/clocks.yml`; `default` in seconds, None where there is none."""

    runtime: str
    setting: str
    clock: str
    default: float | None


@cache
def _clocks() -> tuple[_Clock, ...]:
    rows: Any = load_table(rules_path() / "compat" / "clocks.yml").rows.values()
    return tuple(
        _Clock(row["runtime"], row["setting"], row["clock"], row.get("default")) for row in rows
    )


class Variable(NamedTuple):
    """A row of `rules/compat/settings.yml`."""

    name: str
    runtime: str
    clock: str
    default: float | None
    removed: str
    off: str
    instead: str


@cache
def known_variables() -> Mapping[str, Variable]:
    """Raises SignatureError where the table can't be read."""
    rows: Mapping[str, Mapping[str, Any]] = load_table(
        rules_path() / "compat" / "settings.yml"
    ).rows
    return {
        name: Variable(
            name,
            row["runtime"],
            row.get("clock", ""),
            None if row.get("default") is None else float(row["default"]),
            row.get("removed", ""),
            row.get("off", ""),
            row.get("instead", ""),
        )
        for name, row in rows.items()
    }


def samples(facts: Facts) -> Iterator[Observed]:
    """`enginewatch_preflight_clock_seconds` by `clock`, and settings that nothing reads."""
    for launch in facts.launches:
        if not launch.builds:
            yield from _of_launch(launch, release_of(launch, facts))
    seen = [launch.container for launch in facts.launches if launch.container is not None]
    for workload in seen or facts.workloads:
        yield from _of_workload(workload)
    for front in facts.fronts:
        evidence = Evidence(front.where, 0, f"{front.kind} {front.name}: {front.setting}")
        yield observed(_CLOCK, front.timeout_s, evidence, clock="front", front=front.name)


def _of_launch(launch: Launch, version: Release) -> Iterator[Observed]:
    ranks = launch.count("tensor_parallel") * launch.count("pipeline_parallel")
    labels = {
        "launch": launch.where,
        "runtime": launch.runtime,
        "ranks": "several" if ranks > 1 else "one",
    }
    given = dict(_given(launch))
    for clock, (seconds, setting) in given.items():
        evidence = Evidence(setting.where, 0, f"{setting.by} {setting.value}")
        yield observed(
            _CLOCK, seconds, evidence, clock=clock, given="yes", setting=setting.by, **labels
        )
    for clock, seconds in _defaults(launch.runtime):
        if clock not in given:
            evidence = Evidence(launch.where, 0, launch.command)
            yield observed(_CLOCK, seconds, evidence, clock=clock, given="no", **labels)
    yield from _settings(launch, version, labels)


def _given(launch: Launch) -> Iterator[tuple[str, tuple[float, Given]]]:
    for each in _clocks():
        seconds = launch.number(each.setting) if each.runtime == launch.runtime else None
        if seconds is not None:
            yield each.clock, (seconds, launch.settings[each.setting])
    for name, given in launch.env.items():
        variable = known_variables().get(name)
        seconds = _number(given.value)
        if variable is not None and variable.clock and not variable.removed and seconds is not None:
            yield variable.clock, (seconds, given)


def _number(value: object) -> float | None:
    try:
        return float(str(value)) if value is not None else None
    except ValueError:
        return None


def _defaults(runtime: str) -> Iterator[tuple[str, float]]:
    if runtime == "vllm":
        for variable in known_variables().values():
            if variable.runtime == "vllm" and variable.clock and variable.default is not None:
                yield variable.clock, variable.default
    for each in _clocks():
        if each.runtime == runtime and each.default is not None:
            yield each.clock, each.default


def _settings(launch: Launch, version: Release, labels: Mapping[str, str]) -> Iterator[Observed]:
    """Variables that nothing reads, that are misspelt, or that turn a safety off."""
    known = known_variables()
    for name, given in launch.env.items():
        evidence = Evidence(given.where, 0, redact(f"{name}={given.value}"))
        variable = known.get(name)
        if variable is None:
            if name.startswith(_OWNED) and launch.runtime == "vllm":
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
                yield observed(
                    "enginewatch_preflight_setting_unknown",
                    1,
                    evidence,
                    setting=name,
                    near=near[0] if near else None,
                    **labels,
                )
        elif variable.removed and not is_older(version, variable.removed):
            yield observed(
                "enginewatch_preflight_setting_unread",
                1,
                evidence,
                setting=name,
                since=variable.removed,
                instead=variable.instead or "nothing",
                **labels,
            )
        elif variable.off and str(given.value) == variable.off:
            yield observed("enginewatch_preflight_setting_off", 1, evidence, setting=name, **labels)


def _of_workload(workload: Workload) -> Iterator[Observed]:
    name = workload.name or workload.image
    for probe in workload.probes:
        text = f"{probe.kind} {probe.asks}: every {probe.period_s:g} s, {probe.failures} failures"
        evidence = Evidence(probe.where, 0, f"{text}, after {probe.delay_s:g} s")
        labels = {"container": name, "asks": probe.asks}
        yield observed(_CLOCK, probe.patience_s, evidence, clock=probe.kind, **labels)
        yield observed(
            "enginewatch_preflight_probe_timeout_seconds",
            probe.timeout_s,
            evidence,
            kind=probe.kind,
            **labels,
        )
        yield observed(
            "enginewatch_preflight_probe_acts_after_seconds",
            probe.period_s * probe.failures,
            evidence,
            kind=probe.kind,
            **labels,
        )
    if workload.grace_s is not None and workload.probes:
        evidence = Evidence(workload.where, 0, f"{workload.grace_s:g} s from SIGTERM to SIGKILL")
        yield observed(_CLOCK, workload.grace_s, evidence, clock="grace", container=name)
