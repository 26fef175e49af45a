from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.canary.shape import distinct_words, longest_run, scripts
from enginewatch.evidence.answers import Answer, answers_of, measured


def test_answers_of_openai_and_sglang_shapes() -> None:
    chat = {
        "id": "a",
        "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2},
    }
    completion = {"choices": [{"text": "x", "finish_reason": "length"}]}
    sglang = {"text": "y", "meta_info": {"id": "s", "finish_reason": {"type": "length"}}}
    assert list(answers_of([chat, completion, sglang])) == [
        Answer("a", "hi", "stop", 2),
        Answer("", "x", "length", -1),
        Answer("s", "y", "length", -1),
    ]


@pytest.mark.parametrize(
    "value", [None, 1, "x", {}, {"choices": 3}, {"choices": [1]}, {"text": "x"}]
)
def test_what_is_no_response_has_no_answers(value: object) -> None:
    assert list(answers_of(value)) == []


def test_a_tool_call_is_no_empty_answer() -> None:
    call = {"choices": [{"message": {"content": None, "tool_calls": [{"id": "1"}]}}]}
    (answer,) = answers_of(call)
    assert not answer.is_null


def test_nan_is_found_in_log_probabilities() -> None:
    value = {"choices": [{"text": "x", "logprobs": {"token_logprobs": [-0.1, float("nan")]}}]}
    (answer,) = answers_of(value)
    assert answer.has_nan


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("Sure, 42!!!!!", ("!", 5, 8)),
        ("aab    b", ("a", 2, 0)),
        ("", ("", 0, 0)),
        ("\x00\x00\x00ab", ("a", 1, 3)),
    ],
)
def test_the_longest_run(text: str, run: tuple[str, int, int]) -> None:
    assert longest_run(text) == run


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Paris, the capital", {"latin"}),
        ("Спасибо, 谢谢, thanks", {"cyrillic", "han", "latin"}),
        ("ありがとう ขอบคุณ شكرا", {"kana", "thai", "arabic"}),
        ("12 + 3 = 15", set()),
    ],
)
def test_writing_systems_are_told_apart(text: str, known: set[str]) -> None:
    assert scripts(text) == known


def test_few_words_are_no_loop() -> None:
    assert distinct_words("no no no") == 1
    assert distinct_words("again " * 60) < 0.02


def test_measurements_are_samples() -> None:
    found = {
        sample.labels.name: sample.value
        for sample in measured([Answer("a", "ab\x00<|reserved_token_7|>", "length", 3)])
    }
    assert found["enginewatch_answer_null_characters"] == 1
    assert found["enginewatch_answer_reserved_tokens"] == 1
    assert found["enginewatch_answer_tokens"] == 3
    assert found["enginewatch_answer_empty"] == 0


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_text_can_be_measured(texts: list[str]) -> None:
    answers = [Answer(str(n), text, "stop", n) for n, text in enumerate(texts)]
    assert all(sample.value == sample.value for sample in measured(answers))
