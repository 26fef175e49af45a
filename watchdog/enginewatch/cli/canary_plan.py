"""What `enginewatch canary plan` prints: answers until an alarm, simulated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from enginewatch.canary.baseline import Baseline
from enginewatch.canary.calibrate import steady_losses, tolerances
from enginewatch.canary.decision import Decision
from enginewatch.canary.power import Draw, Fleet, Needed, Setting, flips, needed, shifted

DROPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 1 / 3)
SHIFTS: Final = (0.1, 0.25, 0.5, 1.0)
LATE: Final = 20_000
_RUNS: Final = 200
MOST: Final = 20_000
_SEED: Final = 1


class Scenario(NamedTuple):
    """A test, its healthy answers, and the same with a fault of each size."""

    title: str
    setting: Setting
    healthy: Draw
    faults: tuple[tuple[str, Draw], ...]


class Row(NamedTuple):
    """Answers needed for a fault from the first answer on, and for one after `LATE` healthy."""

    fault: str
    early: Needed
    late: Needed


def plan_lines(decision: Decision, baseline: Baseline | None, accepted: float) -> Iterator[str]:
    """The plan, for a baseline or for two that are made up."""
    yield (
        f"False alarms: at most {decision.alpha:g} over the life of a deployment, all tests"
        " together, however often they are looked at."
    )
    yield (
        f"Answers until the alarm, by simulation ({_RUNS} deployments a line, seed {_SEED}):"
        f" the fault is there from the first answer, or comes after {LATE} healthy ones."
    )
    for scenario in scenarios(decision, baseline, accepted):
        yield ""
        yield scenario.title
        yield f"  {'':14} {'half':>8} {'9 in 10':>8}   {'late, half':>10} {'9 in 10':>8}"
        for row in rows(decision, scenario):
            early, late = (tuple(map(_told, each)) for each in (row.early, row.late))
            yield f"  {row.fault:14} {early[0]:>8} {early[1]:>8}   {late[0]:>10} {late[1]:>8}"


def rows(decision: Decision, scenario: Scenario) -> Iterator[Row]:
    rng = np.random.default_rng(_SEED)
    aged = Fleet(decision, scenario.setting, _RUNS)
    aged.run(scenario.healthy, rng, LATE)
    for name, draw in scenario.faults:
        early = Fleet(decision, scenario.setting, _RUNS).run(draw, rng, MOST)
        late = aged.copy().run(draw, rng, MOST)
        yield Row(name, needed(early, MOST), needed(late, MOST))


def scenarios(decision: Decision, baseline: Baseline | None, accepted: float) -> Iterator[Scenario]:
    if baseline is None:
        yield from _made_up(decision, accepted)
        return
    found = tolerances(baseline.known, decision, accepted)
    rates = [each.rate for each in baseline.known if each.rate is not None]
    unsure = sum(rate * (1 - rate) for rate in rates) / max(len(rates), 1)
    steady = sum(rate == 1 for rate in rates)
    if found.steady is not None:
        yield _lost(
            f"steady, all families, answers to {steady} tasks that always passed",
            Setting(found.steady, 0.0, _alpha(decision, "steady")),
            steady_losses(baseline.known)[0],
            0.0,
        )
    if found.pass_ is not None:
        setting = Setting(found.pass_, found.gain, _alpha(decision, "pass"))
        title = f"pass, all families, answers to all {len(rates)} tasks"
        yield _lost(title, setting, unsure, unsure)
    if found.logprob is not None:
        yield _less_sure(decision, found.logprob, found.scale)


def _made_up(decision: Decision, accepted: float) -> Iterator[Scenario]:
    steady = Setting(decision.pass_.tolerance + accepted, 0.0, _alpha(decision, "steady"))
    title = "steady: a baseline that is right each time, and 0.1% of healthy answers wrong"
    yield _lost(title, steady, 0.001, 0.0)
    both = Setting(decision.pass_.tolerance + accepted, 1.0, _alpha(decision, "pass"))
    title = (
        "pass: a baseline that fails some tasks, and 2% of healthy answers change sides each way"
    )
    yield _lost(title, both, 0.02, 0.02)
    yield _less_sure(decision, decision.logprob.tolerance, None)


def _lost(title: str, setting: Setting, lost: float, gained: float) -> Scenario:
    named = tuple(
        (f"-{100 * drop:.3g} points", flips(min(1.0, lost + drop), min(gained, 1 - lost - drop)))
        for drop in DROPS
    )
    told = f"{title} (tolerated {100 * setting.tolerance:.2g} points)"
    return Scenario(told, setting, flips(lost, gained), named)


def _less_sure(decision: Decision, tolerance: float, scale: float | None) -> Scenario:
    spread = 1 / decision.logprob.noise
    unit = "scales" if scale is None else f"of {scale:.3g} nats"
    setting = Setting(tolerance, 1.0, _alpha(decision, "logprob"))
    named = tuple((f"-{shift:.3g} {unit}", shifted(shift, spread)) for shift in SHIFTS)
    title = f"logprob: a mean shift, in scales ({decision.logprob.noise:g} times the spread)"
    return Scenario(f"{title} (tolerated {tolerance:.2g})", setting, shifted(0.0, spread), named)


def _alpha(decision: Decision, test: str) -> float:
    budget = decision.budget
    shares = {"pass": budget.pass_, "steady": budget.steady, "logprob": budget.logprob}
    return decision.alpha * shares[test].overall


def _told(count: int | None) -> str:
    return f"> {MOST}" if count is None else str(count)
