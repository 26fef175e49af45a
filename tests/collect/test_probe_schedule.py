"""When a target is probed, and what its samples say: one state after the other, no clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.collect.probe_dialect import Result
from enginewatch.collect.probe_schedule import Ended, Standing, Step
from enginewatch.model import METRIC_NAME, Labels

EVERY = 5_000
ANSWERED = Ended(Result.ANSWERED, 0.1, 200, 200)
LATE = Ended(Result.DEADLINE, 5.0, 0, 200)


def values(standing: Standing, now: int, age: int | None = None) -> dict[str, float]:
    target = Labels(instance="a:1", job="j")
    found = list(standing.samples(target, now, age))
    assert all(s.labels.without(METRIC_NAME) == target for s in found)
    return {s.labels.name.removeprefix("enginewatch_probe_"): s.value for s in found}


def after(*ends: Ended, every: int = EVERY) -> Standing:
    """A target that was probed at 0, 5 s, 10 s and so on."""
    standing = Standing()
    for number, ended in enumerate(ends):
        standing = standing.after_send(number * every).after_end(ended)
    return standing


@pytest.mark.parametrize(
    ("standing", "now", "alive", "step"),
    [
        (Standing(), 0, False, Step.SEND),
        (Standing(), 0, True, Step.SKIP),
        (after(ANSWERED), 4_999, False, Step.WAIT),
        (after(ANSWERED), 5_000, False, Step.SEND),
        (after(ANSWERED), 5_000, True, Step.SKIP),
        # Traffic stopped proving anything: now, not at the next interval.
        (after(ANSWERED).after_skip(), 100, False, Step.SEND),
        # The first that is late is asked again at once; the next ones less and less often.
        (after(LATE), 1, False, Step.SEND),
        (after(LATE, LATE), 5_001, False, Step.WAIT),
        (after(LATE, LATE), 10_000, False, Step.SEND),
        (after(LATE, LATE, LATE), 19_999, False, Step.WAIT),
        (after(LATE, LATE, LATE), 20_000, False, Step.SEND),
        # Never two at a time, and one that is out is waited for whatever traffic does.
        (Standing().after_send(0), 60_000, False, Step.WAIT),
        (Standing().after_send(0), 60_000, True, Step.WAIT),
        # The clock was set back.
        (after(ANSWERED), -3_600_000, False, Step.SEND),
        # Nothing there takes probes: looked at again now and then.
        (after(Ended(Result.UNSUPPORTED, 0.1, 404)), 30_000, False, Step.WAIT),
        (after(Ended(Result.UNSUPPORTED, 0.1, 404)), 60_000, False, Step.SEND),
    ],
)
def test_what_is_done_now(standing: Standing, now: int, alive: bool, step: Step) -> None:
    assert standing.step(now, EVERY, alive=alive) is step


def test_an_answered_probe() -> None:
    assert values(after(ANSWERED), 3_000, 2_000) == {
        "skipped": 0,
        "sent_total": 1,
        "deadline_exceeded_total": 0,
        "skips_total": 0,
        "unanswered_seconds": 0,
        "progress_age_seconds": 2,
        "success": 1,
        "refused": 0,
        "duration_seconds": 0.1,
        "http_status": 200,
        "health_status": 200,
    }


def test_silence_is_counted_from_the_first_probe_without_an_answer() -> None:
    assert values(Standing().after_send(1_000), 4_000)["unanswered_seconds"] == 3
    late = after(ANSWERED, LATE)
    assert values(late, 11_000)["unanswered_seconds"] == 6
    assert values(late.after_send(11_000), 13_000)["unanswered_seconds"] == 8
    assert values(late.after_send(11_000).after_end(ANSWERED), 14_000)["unanswered_seconds"] == 0


@pytest.mark.parametrize(
    ("result", "silence"),
    [
        (Result.BUSY, 0),
        (Result.FAILING, 0),
        (Result.REFUSED, 0),
        # Whether it would answer is not known: neither good nor bad.
        (Result.UNREACHABLE, None),
        (Result.STARTING, None),
    ],
)
def test_other_ends_are_no_silence(result: Result, silence: float | None) -> None:
    found = values(after(LATE, Ended(result, 0.1)), 20_000)
    assert found.get("unanswered_seconds") == silence
    assert found["success"] == 0
    assert found["refused"] == (result is Result.REFUSED)


def test_traffic_that_proves_progress_ends_the_silence() -> None:
    found = values(after(LATE, LATE).after_skip(), 20_000)
    assert (found["skipped"], found["unanswered_seconds"], found["skips_total"]) == (1, 0, 1)
    assert "success" not in found


Turn = Callable[[Standing, int], Standing]
TURNS: list[Turn] = [
    lambda s, _: s if s.flying else s.after_skip(),
    lambda s, now: s if s.flying else s.after_send(now),
    *(
        (lambda s, _, r=r: s.after_end(Ended(r, 0.1)) if s.flying else s)  # type: ignore[misc]
        for r in Result
    ),
]


@given(st.lists(st.tuples(st.sampled_from(TURNS), st.integers(0, 9_000)), max_size=40))
@settings(deadline=None)
def test_silence_is_never_longer_than_since_the_last_sign_of_life(
    turns: list[tuple[Turn, int]],
) -> None:
    standing, now, alive = Standing(), 0, 0
    for turn, later in turns:
        now += later
        standing = turn(standing, now)
        if standing.skipping:
            alive = now
        silence = standing.silence(now)
        assert silence is None or 0 <= silence <= now - alive
        assert standing.late <= standing.probes
