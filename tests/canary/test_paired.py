"""The release gate's statistics, against figures from the literature and by definition."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.canary.paired import Paired, Rate, Unpaired, binomial_tail

COUNT = st.integers(0, 400)


def test_counts_are_of_baseline_and_candidate() -> None:
    pairs = [(True, True)] * 4 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)]
    found = Paired.count(pairs)
    assert found == Paired(both=4, lost=3, gained=2, neither=1)
    assert found.before == pytest.approx(0.7)
    assert found.after == pytest.approx(0.6)
    assert found.drop == pytest.approx(0.1)


def test_published_example_of_tango_and_mcnemar() -> None:
    """Airway hyper-responsiveness, Fagerland et al. 2014: 1, 1, 7, 12."""
    found = Paired(both=1, lost=1, gained=7, neither=12)
    assert found.interval() == pytest.approx((-0.517, -0.026), abs=5e-4)
    assert found.p_changed() == pytest.approx(0.0703, abs=1e-4)


def test_published_example_of_newcombe() -> None:
    """Newcombe 1998, example (a), method 10: 56 of 70 against 48 of 80."""
    found = Unpaired(Rate(56 / 70, 70), Rate(48 / 80, 80))
    assert found.interval() == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_sample_sizes_of_the_literature() -> None:
    """A model of 8 billion parameters rounded to 4 bits loses 7.7 points of GSM8K: with 1,319
    tasks of which 13% change sides, no doubt; the 1-point loss of an 80B model needs more."""
    assert Paired(both=1022, lost=136, gained=35, neither=126).p_worse() < 1e-10
    assert Paired(both=1080, lost=46, gained=33, neither=160).p_worse() > 0.05
    assert Paired(both=46_900, lost=1_994, gained=1_427, neither=5_906).p_worse() < 1e-10


def test_what_is_always_right_says_so() -> None:
    perfect = Paired(both=500)
    assert perfect.drop == 0
    assert perfect.p_worse() == 1
    low, high = perfect.interval()
    assert -0.008 < low < 0 < high < 0.008
    assert Paired(lost=500).interval().low > 0.98
    assert math.isnan(Paired().drop)
    assert Paired().interval() == (-1, 1)


@given(COUNT, COUNT, COUNT, COUNT)
@settings(deadline=None, max_examples=60)
def test_interval_holds_the_drop_and_mirrors(both: int, lost: int, gained: int, none: int) -> None:
    found = Paired(both, lost, gained, none)
    if not found.tasks:
        return
    low, high = found.interval()
    assert -1 <= low <= found.drop + 1e-9
    assert found.drop - 1e-9 <= high <= 1
    mirrored = Paired(both, gained, lost, none).interval()
    assert mirrored == pytest.approx((-high, -low), abs=1e-6)
    wider = found.interval(0.99)
    assert wider.low <= low + 1e-9
    assert wider.high >= high - 1e-9


@pytest.mark.parametrize("trials", [0, 1, 7, 60])
def test_binomial_tail_is_the_sum(trials: int) -> None:
    for least in range(trials + 2):
        exact = sum(math.comb(trials, k) for k in range(least, trials + 1)) / 2**trials
        assert binomial_tail(least, trials) == pytest.approx(exact)


def test_binomial_tail_of_many() -> None:
    assert binomial_tail(100_500, 200_000) == pytest.approx(0.01272, abs=1e-4)
    assert binomial_tail(50_250, 100_000) == pytest.approx(0.0574, abs=1e-3)


@given(st.floats(0, 1), st.integers(1, 5000), st.floats(0, 1), st.integers(1, 5000))
@settings(deadline=None, max_examples=60)
def test_unpaired_interval_holds_the_drop(p: float, n: int, q: float, m: int) -> None:
    found = Unpaired(Rate(p, n), Rate(q, m))
    low, high = found.interval()
    assert -1 <= low <= found.drop + 1e-9
    assert found.drop - 1e-9 <= high <= 1
    assert 0 <= found.p_worse() <= 1


@pytest.mark.parametrize(("rate", "tasks"), [(1.2, 5), (-0.1, 5), (0.5, 0), (math.nan, 3)])
def test_no_pass_rate(rate: float, tasks: int) -> None:
    with pytest.raises(ValueError, match="no pass rate"):
        Rate(rate, tasks)
