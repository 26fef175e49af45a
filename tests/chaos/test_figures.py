"""What clients saw, from tokens and ends: no clock but the one that is given."""

from __future__ import annotations

import pytest

from enginechaos.figures import Ledger


def stream(ledger: Ledger, start: float, *tokens: float) -> int:
    request = ledger.begin(start)
    for at in tokens:
        ledger.token(request, at)
    return request


def test_gaps_first_tokens_and_failures_are_told_apart() -> None:
    ledger = Ledger()
    ledger.end(stream(ledger, 10.0, 10.5, 10.6, 10.7), 10.7)
    ledger.end(stream(ledger, 10.0), 11.0, "503: no")
    found = ledger.figures(10.0, 12.0)
    assert found.tokens == 3
    assert found.mean_gap == pytest.approx(0.1)
    assert found.mean_first == pytest.approx(0.5)
    assert (found.finished, found.failed, found.last_error) == (1, 1, "503: no")
    assert found.tokens_per_second == 1.5


def test_a_stream_that_stands_still_counts_as_far_as_it_has_come() -> None:
    ledger = Ledger()
    stream(ledger, 10.0, 10.1, 10.2)
    assert ledger.figures(10.0, 20.0).longest_gap == pytest.approx(9.8)
    assert ledger.figures(15.0, 20.0).mean_gap == pytest.approx(9.8)


def test_a_gap_that_has_just_begun_does_not_make_an_engine_look_quick() -> None:
    ledger = Ledger()
    stream(ledger, 10.0, 10.1, 11.1)
    assert ledger.figures(10.0, 11.2).mean_gap == pytest.approx(1.0)


def test_what_was_taken_back_neither_ended_nor_failed() -> None:
    ledger = Ledger()
    ledger.forget(stream(ledger, 10.0, 10.1))
    found = ledger.figures(10.0, 20.0)
    assert (found.open, found.finished, found.failed, found.mean_gap) == (0, 0, 0, None)


def test_the_curve_has_a_point_for_each_step() -> None:
    ledger = Ledger()
    stream(ledger, 10.0, 10.1, 10.2, 12.5)
    assert ledger.curve(10.0, 13.0, 1.0) == [(10.0, 2), (11.0, 0), (12.0, 1), (13.0, 0)]
    assert ledger.curve(10.0, 10.0, 1.0) == []
