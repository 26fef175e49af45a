"""The tests that may look after every answer: their guarantee, their power, and their memory."""

from __future__ import annotations

import itertools
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.canary.calibrate import mean_variance
from enginewatch.canary.decision import Decision, read_decision, shipped_decision
from enginewatch.canary.errors import CanaryError
from enginewatch.canary.power import Fleet, Setting, flips, needed, shifted
from enginewatch.canary.sequential import EProcess, Watch
from enginewatch.cli.canary_plan import DROPS, plan_lines, rows, scenarios
from enginewatch.rulepack import rules_path

DECISION = shipped_decision()


def watch(tolerance: float = 0.003, gain: float = 0.0, alpha: float = 2e-5) -> Watch:
    return Watch(DECISION, tolerance=tolerance, gain=gain, alpha=alpha)


def fed(one: Watch, xs: list[float]) -> list[int]:
    """The answers, from 1, after which the alarm changed."""
    return [place for place, x in enumerate(xs, 1) if one.take(x)]


# The guarantee.


@pytest.mark.parametrize(
    ("tolerance", "gain", "lost", "gained"),
    [(0.01, 0.0, 0.01, 0.0), (0.01, 1.0, 0.06, 0.05), (0.003, 1.0, 0.003, 0.0)],
)
def test_false_alarms_keep_their_promise_on_the_edge(
    tolerance: float, gain: float, lost: float, gained: float
) -> None:
    """Deployments that are just as bad as is tolerated, looked at after each of 4,000 answers.
    At 5%, as 1 in 10,000 can't be counted; a test at a fixed size would alarm on a third."""
    setting = Setting(tolerance, gain, 0.05)
    when = Fleet(DECISION, setting, 800).run(flips(lost, gained), np.random.default_rng(5), 4_000)
    assert (when <= 4_000).mean() < 0.05


def test_the_shipped_decision_is_silent_on_healthy_answers() -> None:
    """2,000 deployments, 2,000 answers each: four million in all."""
    setting = Setting(0.003, 0.0, DECISION.alpha)
    rng = np.random.default_rng(6)
    assert (Fleet(DECISION, setting, 2_000).run(flips(0.002), rng, 2_000) > 2_000).all()
    shift = Setting(DECISION.logprob.tolerance, 1.0, DECISION.alpha)
    assert (Fleet(DECISION, shift, 500).run(shifted(0.0, 0.25), rng, 2_000) > 2_000).all()


@given(st.lists(st.floats(-1, 1), max_size=60), st.floats(0.001, 0.5))
@settings(deadline=None, max_examples=100)
def test_a_wealth_is_never_below_zero_or_beyond_number(xs: list[float], tolerance: float) -> None:
    process = EProcess(DECISION, tolerance, 1.0)
    for x in xs:
        assert 0 <= process.take(x) < math.inf


def test_a_bet_on_nothing_is_fair() -> None:
    """The mean of the wealth over the two things that may happen is the wealth before."""
    rng = random.Random(3)
    process = EProcess(DECISION, 0.02, 0.0)
    for _ in range(200):
        before, saved = process.wealth, process.to_json()
        worse = process.take(1.0)
        process.restore(saved)
        better = process.take(0.0)
        assert 0.02 * worse + 0.98 * better == pytest.approx(before)
        process.restore(saved)
        process.take(float(rng.random() < 0.05))


def test_the_budget_is_not_overspent() -> None:
    budget = DECISION.budget
    shares = (budget.pass_, budget.steady, budget.logprob)
    assert sum(share.overall + share.families for share in shares) <= 1
    assert DECISION.stake.reserve(0) == pytest.approx(1 - DECISION.stake.first)
    spent = [DECISION.stake.reserve(n) for n in range(0, 100_000, 1_000)]
    assert all(a > b > 0 for a, b in itertools.pairwise(spent))


# The power: what `canary plan` promises.


def test_the_plan_is_kept_by_the_test_itself() -> None:
    """Half of all deployments alarm within what the vectorised simulation says of half."""
    (steady, *_) = scenarios(DECISION, None, 0.0)
    promised = {row.fault: row for row in rows(DECISION, steady)}
    rng = random.Random(11)
    for drop in (0.05, 0.1, 0.2, 1 / 3):
        took = []
        for _ in range(60):
            one = watch(steady.setting.tolerance, 0.0, steady.setting.alpha)
            while not one.alarm:
                one.take(float(rng.random() < 0.001 + drop))
            took.append(one.answers)
        row = promised[f"-{100 * drop:.3g} points"]
        assert row.early.most is not None
        within = sum(count <= row.early.most for count in took)
        assert within >= 45, f"{drop}: {within} of 60 within {row.early.most}"


def test_a_third_of_answers_wrong_is_found_within_64() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        one = watch()
        fed(one, [0.0] * 200)
        assert fed(one, [float(rng.random() < 1 / 3) for _ in range(64)])[:1], seed


def test_plan_says_what_it_takes() -> None:
    lines = list(plan_lines(DECISION, None, 0.0))
    assert "0.0001" in lines[0]
    steady = lines[lines.index("") + 3 :][: len(DROPS)]
    assert [line.split()[0] for line in steady] == ["-1", "-2", "-5", "-10", "-20", "-33.3"]
    half = [int(line.split()[2]) for line in steady]
    late = [int(line.split()[4]) for line in steady]
    assert half == sorted(half, reverse=True), "a larger drop takes fewer answers"
    assert half[-1] < 30
    assert all(a < b for a, b in zip(half, late, strict=True)), "a late fault takes more"


def test_many_at_once_are_the_same_as_one() -> None:
    rng = np.random.default_rng(7)
    for gain in (0.0, 1.0):
        fleet = Fleet(DECISION, Setting(0.01, gain, 1e-4), 5)
        ones = [EProcess(DECISION, 0.01, gain) for _ in range(5)]
        for _ in range(300):
            x = rng.choice([1.0, 0.0, -gain], 5, p=[0.1, 0.8, 0.1])
            wealth = fleet.take(x)
            assert wealth == pytest.approx([o.take(v) for o, v in zip(ones, x, strict=True)])


def test_what_was_not_reached_is_said() -> None:
    assert needed(np.array([5, 101, 101, 101]), 100) == (None, None)
    assert needed(np.array([5, 7, 9, 101]), 100) == (9, None)


# A life: alarm, recovery, alarm.


def test_an_alarm_lasts_until_the_opposite_is_shown() -> None:
    rng = random.Random(2)
    one = watch()
    assert fed(one, [0.0] * 500) == []
    assert one.evidence < 0.1
    (began,) = fed(one, [float(rng.random() < 1 / 3) for _ in range(100)])
    assert began <= 64
    assert one.alarm
    assert one.evidence >= 1
    (ended,) = fed(one, [0.0] * 200)
    assert 10 < ended < 120
    assert not one.alarm
    assert one.evidence < 0.1
    assert fed(one, [1.0] * 10)[0] <= 5, "and it is watched again"


def test_an_alarm_does_not_flap_while_the_fault_lasts() -> None:
    for seed in range(10):
        rng = random.Random(seed)
        one = watch()
        for drop in (0.02, 0.2):
            changes = fed(one, [float(rng.random() < drop) for _ in range(4_000)])
            assert len(changes) <= 1, (seed, drop)
            assert one.alarm


def test_x_is_what_was_promised() -> None:
    with pytest.raises(ValueError, match="not from"):
        watch(gain=0.5).take(-0.6)
    with pytest.raises(ValueError, match="not from"):
        watch().take(1.1)
    with pytest.raises(ValueError, match="not from"):
        watch().take(math.nan)


# Memory.


@given(st.lists(st.sampled_from([0.0, 1.0]), max_size=120), st.integers(0, 120))
@settings(deadline=None, max_examples=40)
def test_a_restart_changes_nothing(xs: list[float], cut: int) -> None:
    straight, before = watch(), watch()
    fed(straight, xs)
    fed(before, xs[:cut])
    after = watch()
    after.restore(json.loads(json.dumps(before.to_json())))
    fed(after, xs[cut:])
    assert after.to_json() == straight.to_json()
    assert after.evidence == straight.evidence


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"process": {"answers": 1, "stakes": [1.0]}},
        {"process": {"answers": -1, "stakes": [0.1] * len(DECISION.bets)}},
        {"process": {"answers": 1, "stakes": [math.nan] * len(DECISION.bets)}},
    ],
)
def test_what_was_saved_by_another_is_refused(saved: dict[str, object]) -> None:
    whole = {"recent": [], "alarm": False, "highest": 0, "recovered": 1, "answers": 1}
    whole |= {"lost": [0, 0, 0], **saved}
    with pytest.raises((KeyError, TypeError, ValueError)):
        watch().restore(whole)


# The numbers.


def test_a_variance_from_repetitions() -> None:
    assert mean_variance([[1.0], [0.0]]) is None
    assert mean_variance([[1.0, 1.0], [0.0, 0.0]]) == 0
    assert mean_variance([[1.0, 0.0]] * 100) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("alpha: 0.0001", "alpha: 2", "alpha"),
        ("alpha: 0.0001", "alpah: 0.1", "alpha"),
        ("bets: [0.5,", "bets: [1.5,", "bets"),
        ("{overall: 0.2, families: 0.2}", "{overall: 0.9, families: 0.2}", "budget"),
        ("version: 1", "version: [", "not YAML"),
    ],
)
def test_a_decision_that_makes_no_sense(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str, said: str
) -> None:
    text = (rules_path() / "canary" / "decision.yml").read_text()
    assert old in text
    path = tmp_path_factory.mktemp("d") / "decision.yml"
    path.write_text(text.replace(old, new))
    with pytest.raises(CanaryError, match=said):
        read_decision(path)


def test_the_shipped_decision_is_the_file() -> None:
    assert isinstance(DECISION, Decision)
    assert read_decision(rules_path() / "canary" / "decision.yml") == DECISION
