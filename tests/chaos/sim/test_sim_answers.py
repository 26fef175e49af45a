"""The simulated model really answers, and a numeric format really hurts it."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from enginechaos.sim import damage
from enginechaos.sim.errors import SimError
from enginechaos.sim.language import Language
from enginechaos.sim.tokens import pieces, token_ids
from enginewatch.canary.score import Grade, score
from enginewatch.canary.task import Task
from enginewatch.canary.tasks import make_tasks, read_families


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return make_tasks(read_families(), "sim", 72)


def grades(tasks: tuple[Task, ...], form: str, batch: int) -> Counter[Grade]:
    model = Language(0, damage.load(form))
    found: Counter[Grade] = Counter()
    for task in tasks:
        answer = model.answer(task.prompt, task.max_tokens, ignore_eos=False, batch=batch)
        found[score(task, "".join(answer.pieces)).grade] += 1
    return found


def test_undamaged_it_is_always_right(tasks: tuple[Task, ...]) -> None:
    assert grades(tasks, "bf16", batch=8)[Grade.WRONG] == 0


def test_one_scale_a_tensor_makes_half_wrong(tasks: tuple[Task, ...]) -> None:
    found = grades(tasks, "tensor", batch=8)
    assert 0.35 < found[Grade.WRONG] / found.total() < 0.7


def test_products_go_wrong_first() -> None:
    model = Language(0, damage.load("naive-10"))
    asked = "What is 83 {} 7? Reply with the number alone."
    wrong = Counter(
        sign
        for sign, right in (("+", 83 + 7), ("*", 83 * 7))
        for _ in range(200)
        if "".join(model.answer(asked.format(sign), 24, ignore_eos=False, batch=2).pieces)
        != str(right)
    )
    assert wrong["*"] > 20 > wrong["+"]


def test_a_fault_of_batches_does_not_show_in_a_single_stream(tasks: tuple[Task, ...]) -> None:
    assert grades(tasks, "nvfp4-batched", batch=1)[Grade.WRONG] == 0
    assert grades(tasks, "nvfp4-batched", batch=4)[Grade.WRONG] > 8


def test_alone_the_same_prompt_has_the_same_answer_and_in_a_batch_it_may_not() -> None:
    model = Language(0, damage.load("tensor"))
    prompt = "What is 4711 + 1742? Reply with the number alone."
    alone = {model.answer(prompt, 24, ignore_eos=False, batch=1).pieces for _ in range(20)}
    batched = {model.answer(prompt, 24, ignore_eos=False, batch=4).pieces for _ in range(40)}
    assert len(alone) == 1
    assert len(batched) > 1


def test_the_likelihood_of_the_right_answer_falls_with_the_format() -> None:
    prompt = "What is 4711 + 1742? Reply with the number alone.6453"
    sums = {}
    for form in ("bf16", "mxfp4", "tensor"):
        sums[form] = math.fsum(Language(0, damage.load(form)).likelihood(prompt, 1))
    assert sums["bf16"] > sums["mxfp4"] > sums["tensor"]


def test_an_answer_is_cut_at_its_limit() -> None:
    answer = Language().answer("Tell me a story", 7, ignore_eos=True, batch=1)
    assert len(answer.pieces) == len(answer.logprobs) == 7


def test_an_unknown_format_is_told_with_those_that_are_known() -> None:
    with pytest.raises(SimError, match="bf16"):
        damage.load("fp3")


@pytest.mark.parametrize("text", ["", "one two  three\n4567 ünï, x", "a\tb" * 5])
def test_pieces_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert len(token_ids(text)) == len(pieces(text))
