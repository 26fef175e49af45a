"""All tests on one deployment, from its baseline to samples."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.canary.baseline import (
    Answer,
    Baseline,
    Known,
    is_baseline,
    read_baseline,
    write_baseline,
)
from enginewatch.canary.calibrate import tolerances
from enginewatch.canary.decision import shipped_decision
from enginewatch.canary.degenerate import Alike, Fault, faults
from enginewatch.canary.errors import CanaryError
from enginewatch.canary.look import look
from enginewatch.canary.panel import Panel
from enginewatch.canary.shown import shown
from enginewatch.canary.task import Kind, Task
from enginewatch.model import METRIC_NAME

DECISION = shipped_decision()


def task(number: int, family: str = "sums") -> Task:
    return Task(f"{family}-{number}", family, f"{family} {number}?", Kind.NUMBER, str(number))


def known(
    number: int, family: str = "sums", passed: str = "111", logprob: float | None = -0.01
) -> Known:
    answers = tuple(Answer(str(number), each == "1", logprob) for each in passed)
    return Known(task(number, family), answers)


def baseline(*more: Known) -> Baseline:
    sums = [known(n) for n in range(20)]
    codes = [known(n, "code") for n in range(20)]
    return Baseline((*sums, *codes, *more), about={"model": "small", "format": "bf16"})


def values(panel: Panel, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(v for k, v in sorted(s.labels.items()) if k != METRIC_NAME): s.value
        for s in panel.samples()
        if s.labels.name == f"enginewatch_canary_{name}"
    }


def feed(
    panel: Panel, answer: Callable[[Known, random.Random], Answer], count: int, seed: int = 1
) -> list[tuple[int, str, str, bool]]:
    rng = random.Random(seed)
    changes: list[tuple[int, str, str, bool]] = []
    for place in range(1, count + 1):
        drawn = panel.draw(rng)
        taken = panel.take(drawn.task.id, answer(drawn, rng))
        changes += [(place, *change) for change in taken.changes]
    return changes


def good(one: Known, _: random.Random) -> Answer:
    return Answer(str(one.task.answer), passed=True, logprob=-0.01)


def test_a_healthy_deployment_is_left_alone() -> None:
    panel = Panel(baseline(), DECISION)

    def noisy(one: Known, rng: random.Random) -> Answer:
        return Answer(str(one.task.answer), rng.random() > 0.001, -0.01 + rng.gauss(0, 0.0005))

    assert feed(panel, noisy, 5_000) == []
    assert max(values(panel, "evidence_ratio").values()) < 0.5
    assert values(panel, "answers_total")[("overall",)] == 5_000
    assert values(panel, "baseline_pass_ratio")[("code",)] == 1


def test_a_model_that_is_often_unsure_is_left_alone() -> None:
    """A tenth of its tasks never passes, a tenth sometimes: what the baseline saw of them was
    luck in part, and must not become evidence."""
    for seed in range(3):
        rng = random.Random(seed)
        truth: dict[str, tuple[float, float]] = {}
        rows = []
        for n in range(200):
            one = task(n, f"family{n % 4}")
            u = rng.random()
            rate, mean = 1.0 if u < 0.8 else 0.0 if u < 0.9 else rng.random(), -rng.random()
            truth[one.id] = rate, mean
            answers = (_sample(rng, rate, mean, str(n)) for _ in range(3))
            rows.append(Known(one, tuple(answers)))
        panel = Panel(Baseline(tuple(rows)), DECISION)

        def same(one: Known, rng: random.Random, truth: Any = truth) -> Answer:
            return _sample(rng, *truth[one.task.id], str(one.task.answer))

        assert feed(panel, same, 3_000, seed=seed + 100) == []


def _sample(rng: random.Random, rate: float, mean: float, text: str) -> Answer:
    return Answer(text, rng.random() < rate, min(0.0, mean + rng.gauss(0, 0.01)))


def test_a_family_that_goes_is_named_and_comes_back() -> None:
    panel = Panel(baseline(), DECISION)

    def bad(one: Known, rng: random.Random) -> Answer:
        lost = one.task.family == "code" and rng.random() < 0.6
        return Answer("7" if lost else str(one.task.answer), not lost)

    changes = feed(panel, bad, 64)
    assert {("steady", "overall", True), ("steady", "code", True)} <= {c[1:] for c in changes}
    assert not any(family == "sums" for _, _, family, _ in changes)
    assert values(panel, "pass_ratio")[("sums",)] == 1
    assert values(panel, "drop")[("code", "steady")] > 0.3
    ended = feed(panel, good, 600, seed=2)
    assert ("steady", "overall", False) in {c[1:] for c in ended}
    assert max(values(panel, "evidence_ratio").values()) < 1


def test_probabilities_that_fall_are_seen_before_answers_go_wrong() -> None:
    panel = Panel(baseline(), DECISION)

    def less_sure(one: Known, rng: random.Random) -> Answer:
        return Answer(str(one.task.answer), passed=True, logprob=-0.03)

    changes = feed(panel, less_sure, 120)
    assert ("logprob", "overall", True) in {c[1:] for c in changes}
    assert not {"pass", "steady"} & {c[1] for c in changes}
    assert values(panel, "logprob_shift_nats")[("overall",)] == pytest.approx(0.02)


def test_one_answer_can_not_decide_by_its_probability() -> None:
    panel = Panel(baseline(), DECISION)
    panel.take("sums-1", Answer("1", passed=True, logprob=-1e6))
    assert values(panel, "evidence_ratio")[("overall", "logprob")] < 0.3


def test_a_drop_that_was_accepted_is_no_alarm() -> None:
    panel = Panel(baseline(), DECISION, accepted=0.06)

    def slightly(one: Known, rng: random.Random) -> Answer:
        lost = rng.random() < 0.05
        return Answer("7" if lost else str(one.task.answer), not lost)

    assert feed(panel, slightly, 3_000) == []
    assert feed(Panel(baseline(), DECISION), slightly, 3_000)


def test_gains_pay_for_losses_where_the_baseline_is_unsure() -> None:
    """A build that loses as many tasks as it wins is as good; the tasks that always passed
    are another matter."""
    unsure = Baseline(tuple(known(n, passed="10"[n % 2] * 3, logprob=None) for n in range(40)))
    panel = Panel(unsure, DECISION)

    def other(one: Known, rng: random.Random) -> Answer:
        return Answer("", (one.rate == 1.0) is not (rng.random() < 0.1))

    assert {test for _, test, _, _ in feed(panel, other, 1_500)} == {"steady"}


def test_unscored_answers_count_for_nothing() -> None:
    panel = Panel(baseline(), DECISION)
    assert feed(panel, lambda one, _: Answer("def f(): ...", None), 200) == []
    assert values(panel, "unscored_answers_total")[()] == 200


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {Fault.EMPTY}),
        ("  \n", {Fault.EMPTY}),
        ("!" * 64, {Fault.RUN}),
        ("The sum is" + "!" * 64, {Fault.RUN}),
        ("a b c " * 200, {Fault.LOOP}),
        ("und мир 世界 עולם", {Fault.SALAD}),
        ("4<unk><unk>", {Fault.RESERVED}),
        ("\ufffd" * 4 + "abc", {Fault.GARBLED}),
        ("\x00\x00", {Fault.GARBLED}),
        ("12", set()),
        ("-" * 64 + "\n| a | b |", set()),
        ("1" + "0" * 40, set()),
        ("La somme est 12, c'est-à-dire douze.", set()),
        ("答えは12です。 The answer is 12.", set()),
    ],
)
def test_what_is_no_language(text: str, found: set[Fault]) -> None:
    assert faults(text, DECISION.degenerate) - {Fault.LOOP} == found - {Fault.LOOP}
    assert (Fault.LOOP in faults(text, DECISION.degenerate)) >= (Fault.LOOP in found)


def test_the_same_answer_to_different_questions() -> None:
    alike = Alike(DECISION.degenerate)
    said = "I am a helpful model."
    assert [alike.take(f"q{n}", said, ()) for n in range(3)] == [False, False, True]
    assert not alike.take("q9", "12", ()), "short answers may be the same"
    assert not any(alike.take(f"p{n}", "1234567890", {"1234567890"}) for n in range(9))
    assert not any(Alike(DECISION.degenerate).take("one", said, ()) for _ in range(9))


def test_degenerate_answers_are_told_at_once() -> None:
    panel = Panel(baseline(), DECISION)
    feed(panel, good, 100)
    assert panel.degenerate == 0
    assert panel.take("sums-1", Answer("!" * 40, passed=False)).faults == {Fault.RUN}
    assert values(panel, "evidence_ratio")[("overall", "degenerate")] == 0.5
    panel.take("sums-2", Answer("", passed=False, faults=frozenset({Fault.NAN})))
    assert values(panel, "evidence_ratio")[("overall", "degenerate")] == 1
    assert panel.kinds() == {"run": 1, "nan": 1, "empty": 1}
    feed(panel, good, 40)
    assert panel.degenerate == 0


def test_a_habit_of_the_baseline_is_no_fault() -> None:
    loops = Known(task(99), (Answer("a b c " * 200, passed=False),))
    panel = Panel(baseline(loops), DECISION)
    assert panel.take("sums-99", Answer("a b c " * 220, passed=False)).faults == frozenset()


# What the baseline's repetitions say.


def test_tolerances_come_from_repetitions() -> None:
    sure = tolerances([known(n) for n in range(100)], DECISION)
    assert sure.pass_ == sure.steady == DECISION.pass_.tolerance
    assert sure.gain == 0
    assert sure.scale == DECISION.logprob.least
    once = tolerances([known(n, passed="1") for n in range(100)], DECISION)
    assert once.pass_ == once.steady == DECISION.pass_.unrepeated
    assert once.scale == DECISION.logprob.unrepeated
    shaky = [known(n, passed="111" if n % 10 else "101") for n in range(100)]
    found = tolerances(shaky, DECISION)
    assert found.pass_ is not None
    assert found.steady is not None
    assert 0.01 < found.pass_ < 0.05
    assert 0.03 < found.steady < 0.12, "a tenth of the tasks fails a third of the time"
    assert found.gain == pytest.approx(1 / 3)
    none = tolerances([known(1, passed="000", logprob=None)], DECISION)
    assert none.steady is None
    assert none.logprob is None


def test_noise_of_probabilities_sets_the_scale() -> None:
    rng = random.Random(4)
    rows = [
        Known(task(n), tuple(Answer("", True, -1 + rng.gauss(0, 0.01)) for _ in range(3)))
        for n in range(300)
    ]
    found = tolerances(rows, DECISION)
    assert found.scale == pytest.approx(4 * 0.01 * math.sqrt(1.5), rel=0.15)
    assert found.logprob is not None
    assert DECISION.logprob.tolerance < found.logprob < 0.09


# Files.


def test_a_baseline_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    given_ = baseline(Known(task(77, "odd"), (Answer("x" * 9_000, None), Answer("", False))))
    path.write_text("".join(f"{line}\n" for line in write_baseline(given_)))
    found = read_baseline(path)
    assert is_baseline(path)
    assert found.about == given_.about
    assert found.known[:-1] == given_.known[:-1]
    assert len(found.known[-1].answers[0].text) == 2_000
    assert found.families == ("code", "odd", "sums")
    assert found.evaluation().rates["sums"].rate == 1


HEAD = '{"enginewatch_canary_baseline": 1, "chat": false}\n'
ROW = json.dumps({"task": task(1).to_json(), "answers": [{"text": "1", "passed": True}]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a baseline"),
        ("{}\n", "not a baseline"),
        ("[]\n", "not a baseline"),
        ('{"enginewatch_canary_baseline": 9}\n', "of version 9"),
        (HEAD, "no tasks"),
        (HEAD + "{}\n", "b.jsonl:2: not a task with answers"),
        (HEAD + ROW + "\n" + ROW + "\n", "two tasks"),
        (HEAD + ROW.replace("true", "1") + "\n", "passed is 1"),
        (HEAD + ROW.replace('"passed"', '"logprob": 3, "passed"') + "\n", "logprob is 3"),
        (HEAD + ROW.replace('"passed"', '"faults": ["odd"], "passed"') + "\n", "not known"),
        (HEAD + ROW.replace('[{"text"', '[7, {"text"') + "\n", "not an answer"),
        (HEAD + json.dumps({"task": task(1).to_json(), "answers": []}) + "\n", "no answers"),
    ],
)
def test_what_is_wrong_with_a_baseline_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text(text)
    with pytest.raises(CanaryError) as failure:
        read_baseline(path)
    assert said in str(failure.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(st.fixed_dictionaries({}, optional={"task": JSON, "answers": JSON}))
@settings(deadline=None, max_examples=100)
def test_any_row_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(HEAD + json.dumps(row) + "\n")
    with pytest.raises(CanaryError):
        read_baseline(path)


def test_a_restart_goes_on_where_it_was() -> None:
    panel = Panel(baseline(), DECISION)

    def bad(one: Known, rng: random.Random) -> Answer:
        return Answer("7", rng.random() > 0.3, -0.02)

    feed(panel, bad, 50)
    again = Panel(baseline(), DECISION)
    again.restore(json.loads(json.dumps(panel.to_json())))
    assert (
        values(again, "evidence_ratio").items()
        >= {
            key: value
            for key, value in values(panel, "evidence_ratio").items()
            if key[1] != "degenerate"
        }.items()
    )
    assert values(again, "answers_total") == values(panel, "answers_total")
    with pytest.raises((KeyError, ValueError)):
        Panel(Baseline((known(1, "other"),)), DECISION).restore(panel.to_json())


def test_a_look_at_all_tasks_once() -> None:
    trusted = baseline()
    answers: list[tuple[Known, Answer | str]] = [
        (each, Answer(str(each.task.answer), True, -0.06)) for each in trusted.known
    ]
    answers[0] = (trusted.known[0], Answer("!" * 99, False))
    answers[1] = (trusted.known[1], "deadline: no answer within 2 s")
    found = look(trusted, answers, DECISION, "http://a:1")
    assert (found.answers, found.unanswered, found.degenerate) == (39, 1, 1)
    assert found.problem.startswith("deadline")
    assert found.shifts is not None
    assert found.shifts["overall"].mean == pytest.approx(0.05)
    assert found.shifts["code"].low == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "(nothing)"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31m\u202e", "\\u{1b}[31m\\u{202e}"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
    ],
)
def test_answers_are_shown_without_power(text: str, line: str) -> None:
    assert shown(text) == line


def test_long_answers_are_shown_short() -> None:
    line = shown("x\n" * 600_000)
    assert len(line) < 250
    assert "[1200000 characters]" in line
    assert "\n" not in line
