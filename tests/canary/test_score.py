"""Scores, of answers that are right, nearly right, or meant to be taken for right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.canary import sandbox
from enginewatch.canary.score import Grade, score
from enginewatch.canary.task import Case, Kind, Task

needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason="code can't be run here")


def task(kind: Kind, answer: Any = None, **more: Any) -> Task:
    return Task("t", "f", "?", kind, answer, **more)


def passed(kind: Kind, answer: Any, said: str, **more: Any) -> bool:
    return score(task(kind, answer, **more), said).passed


@pytest.mark.parametrize(
    "said",
    [
        "1234",
        " 1,234\n",
        "1234.0",
        "+1234",
        "The sum is 1234.",
        "**1234**",
        "$1234$",
        "First 600 + 634, so it is\n1234",
        "12 boxes, 3 gone.\nAnswer: 1234",
        "12 boxes.\n**Answer:** 1234 boxes",
        "Answer: 7\nNo, wrong.\nAnswer: 1234",
        "#### 1234",
        "So \\boxed{1234} it is, with 17 left over",
        "<think>it might be 17, or 18</think>1234",
        "1234\n\n",
    ],
)
def test_numbers_that_are_right(said: str) -> None:
    assert passed(Kind.NUMBER, "1234", said)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "  \n",
        "12345",
        "1234.5",
        "-1234",
        "1234 or 1235",
        "It is 1234. It is 1235.",
        "1233\n1234\n1235",
        "Answer: 1234 or 1235",
        "Answer: 1234\nAnswer: 1235",
        "\\boxed{1234, 1235}",
        "one thousand two hundred and thirty-four",
        "١٢٣٤",
        "１２３４",
        "I'm sorry, but I can't help with that.",
        "<think>it is 1234",
        "<think>it is 1234</think>I do not know",
        "1234e0",
        "0x4d2",
        "12,34",
        "1 234",
        "1234" * 20_000,
        "1234\n" * 20_000,
        "!" * 1_000_000,
        "\x00" * 100,
        "<b>12<i>34</i></b>",
        "NaN",
        "Infinity",
        "9" * 60_000,
    ],
)
def test_numbers_that_are_wrong(said: str) -> None:
    assert not passed(Kind.NUMBER, "1234", said)


def test_a_minus_is_one_however_it_is_written() -> None:
    assert passed(Kind.NUMBER, "-7", "-7")
    assert passed(Kind.NUMBER, "-7", "\u22127")
    assert not passed(Kind.NUMBER, "-7", "7")


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("K7 plum 93", True),
        (' "K7 plum 93" \n', True),
        ("`K7 plum 93`", True),
        ("```\nK7 plum 93\n```", True),
        ("k7 plum 93", False),
        ("K7 plum 93 Zx", False),
        ("K7  plum 93", False),
        ("Sure! K7 plum 93", False),
        ("```\nK7 plum 93\n```\n```\nother\n```", False),
    ],
)
def test_exact(said: str, right: bool) -> None:
    assert passed(Kind.EXACT, "K7 plum 93", said) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("ABCD-1234", True),
        ("The key is **ABCD-1234**.", True),
        ("ABCD-1234, I repeat: ABCD-1234", True),
        ("ABCD-1234 or WXYZ-9999", False),
        ("ABCD-1235", False),
        ("abcd-1234", False),
        ("The key", False),
    ],
)
def test_pick(said: str, right: bool) -> None:
    assert passed(Kind.PICK, "ABCD-1234", said, pattern="[A-Z]{4}-[0-9]{4}") is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ('{"a": [1, true, null], "b": "x"}', True),
        ('{"b": "x", "a": [1.0, true, null]}', True),
        ('Here it is:\n```json\n{"b": "x", "a": [1, true, null]}\n```\nDone.', True),
        ('{"a": [1, 1, null], "b": "x"}', False),
        ('{"a": [1, true, null], "b": "x", "c": 1}', False),
        ('{"a": [1, true], "b": "x"}', False),
        ('{"a": [1, true, null], "a": [1, true, null], "b": "x"}', False),
        ('{"a": [NaN, true, null], "b": "x"}', False),
        ('{"a": [1, true, null], "b": "x"} or something else', False),
        ('```\n{"a": [1, true, null], "b": "x"}\n```\n```\n{}\n```', False),
        ("[" * 60_000, False),
        ("<json/>", False),
    ],
)
def test_json(said: str, right: bool) -> None:
    assert passed(Kind.JSON, {"a": [1, True, None], "b": "x"}, said) is right


ADD = task(Kind.CODE, function="add", cases=(Case((1, 2), 3), Case((-1, 1), 0)))
GOOD = "def add(a, b):\n    return a + b\n"


@needs_sandbox
@pytest.mark.parametrize(
    ("said", "right"),
    [
        (GOOD, True),
        (f"Sure!\n```python\n{GOOD}```\nUse it:\n```\nadd(1, 2)\n```", True),
        (f"```python\n{GOOD}", True),
        (GOOD + "print('noise')\n", True),
        ("def add(a, b):\n    return a - b\n", False),
        ("def add(a, b):\n    return 3\n", False),
        ("def add(a, b):\n    return str(a + b)\n", False),
        (f"```python\n{GOOD}```\nor\n```python\n{GOOD}```", False),
        ("def other(a, b):\n    return a + b\n", False),
        ("def add(a, b) return a + b", False),
        ("I can't write code.", False),
        (GOOD + "\x00", False),
        (GOOD + "import sys; sys.exit(0)", False),
        (GOOD + "#" * 20_000, False),
        ("class E:\n    def __eq__(self, o): return True\ndef add(a, b):\n    return E()\n", False),
        ("import os\ndef add(a, b):\n    os.write(1, b'right'); os._exit(0)\n", False),
    ],
)
def test_code(said: str, right: bool) -> None:
    assert score(ADD, said).passed is right


@needs_sandbox
def test_a_flag_is_no_number_in_code_either() -> None:
    one = task(Kind.CODE, function="f", cases=(Case((), 1),))
    assert not score(one, "def f():\n    return True").passed


@pytest.mark.parametrize("failure", [sandbox.SandboxError, sandbox.SlowError])
def test_code_that_can_not_be_run_is_neither_right_nor_wrong(
    monkeypatch: pytest.MonkeyPatch, failure: type[sandbox.SandboxError]
) -> None:
    def refuse(*_: Any) -> Any:
        raise failure("code is not run here")

    monkeypatch.setattr(sandbox, "run", refuse)
    assert score(ADD, GOOD).grade is Grade.UNSCORED


def test_why_does_not_quote_the_answer() -> None:
    said = score(task(Kind.NUMBER, "1"), "<script>alert(1)</script> 2 3")
    assert said.why == "several numbers"


TASKS = [
    task(Kind.NUMBER, "12"),
    task(Kind.EXACT, "x"),
    task(Kind.PICK, "A-1", pattern="[A-Z]-[0-9]"),
    task(Kind.JSON, {"a": 1}),
]
NOISE = st.text(max_size=300) | st.text(
    alphabet="`<think>/\n{}[]\\boxed0,1.-:#Answer ", max_size=300
)


@given(st.sampled_from(TASKS), NOISE)
@settings(deadline=None, max_examples=300)
def test_no_answer_breaks_a_scorer(what: Task, said: str) -> None:
    assert score(what, said).grade in set(Grade)


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
@settings(deadline=None, max_examples=100)
def test_another_number_is_never_right(expected: int, said: int) -> None:
    assert passed(Kind.NUMBER, str(expected), f"The answer is: {said:,}") is (expected == said)


@pytest.mark.parametrize("piece", ["<think>", "```\n", "1,", "Answer:", "\\boxed{", "{[", "-"])
def test_long_answers_take_no_time(piece: str) -> None:
    """Nothing here is quadratic: the run would not end."""
    for what in TASKS:
        score(what, piece * (60_000 // len(piece)))
