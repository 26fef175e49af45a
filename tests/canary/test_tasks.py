"""Golden tasks: the shipped families, their templates' language, and the file format."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.canary import sandbox
from enginewatch.canary.errors import CanaryError
from enginewatch.canary.expression import evaluate
from enginewatch.canary.score import score
from enginewatch.canary.task import Kind, Task, read_tasks, task_of, write_tasks
from enginewatch.canary.tasks import make_tasks, read_families

needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason="code can't be run here")


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return make_tasks(read_families(), "1", 200)


def test_the_same_seed_gives_the_same_tasks(tasks: tuple[Task, ...]) -> None:
    assert make_tasks(read_families(), "1", 200) == tasks
    other = {task.prompt for task in make_tasks(read_families(), "2", 200)}
    # Templates of code have few values to draw; their cases are drawn anew all the same.
    prompts = {task.prompt for task in tasks if task.kind is not Kind.CODE}
    assert len(other & prompts) <= 3


def test_a_known_task_stays_what_it_is(tasks: tuple[Task, ...]) -> None:
    """Of any version of Python: baselines are compared with tasks that are made later."""
    found = {task.id: task for task in tasks}
    assert found["arithmetic-add-0"].answer == "10598"
    assert found["structured-sort-0"].answer == [-31, -3, 36, 44, 57, 60, 99]


@needs_sandbox
def test_families_have_their_shares_and_are_mixed(tasks: tuple[Task, ...]) -> None:
    assert len({task.id for task in tasks}) == len(tasks) == 200
    count = Counter(task.family for task in tasks)
    assert count == {
        "arithmetic": 50,
        "word_problems": 50,
        "structured": 34,
        "code": 33,
        "retrieval": 33,
    }
    assert len({task.family for task in tasks[:10]}) == 5
    sizes = [task.tokens for task in tasks]
    assert min(sizes) < 50
    assert max(sizes) > 8_000, "long contexts are where some faults show"


@needs_sandbox
def test_right_answers_are_right_and_wrong_ones_wrong(tasks: tuple[Task, ...]) -> None:
    for task in tasks:
        if task.kind is Kind.CODE:
            continue
        right = task.answer if isinstance(task.answer, str) else json.dumps(task.answer)
        assert score(task, right).passed, task.id
        assert not score(task, "I can't say.").passed, task.id
        other = next(one for one in tasks if one.kind is task.kind and one.answer != task.answer)
        wrong = other.answer if isinstance(other.answer, str) else json.dumps(other.answer)
        assert not score(task, wrong).passed, task.id


def test_without_a_sandbox_there_is_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: False)
    tasks = make_tasks(read_families(), "1", 60)
    assert len(tasks) == 60
    assert "code" not in {task.family for task in tasks}


def test_tasks_survive_their_file(tasks: tuple[Task, ...], tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(write_tasks(tasks)) + "\n\n")
    again = read_tasks(path)
    assert [task.to_json() for task in again] == [task.to_json() for task in tasks]


GIVEN = {"id": "a", "family": "f", "prompt": "?", "score": "number", "answer": "4"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": "maybe"}, "score is 'maybe'"),
        ({"answer": 4}, "answer is '4' (a text, not empty)"),
        ({"prompt": ""}, "prompt is ''"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": True}, "max_tokens is True"),
        ({"stop": "\n"}, "a list of texts"),
        ({"promt": "?"}, "did you mean 'prompt'?"),
        ({"score": "pick"}, "pattern is missing"),
        ({"score": "pick", "pattern": "("}, "pattern"),
        ({"score": "pick", "pattern": "[a-z]"}, "does not match the answer itself"),
        ({"score": "code", "function": "f"}, "cases are missing"),
        ({"score": "code", "function": "f", "cases": [[1, 2]]}, "not a case"),
        ({"target": 3}, "target is '3'"),
    ],
)
def test_what_is_wrong_with_a_task_is_said(change: dict[str, object], said: str) -> None:
    with pytest.raises(CanaryError) as failure:
        task_of({**GIVEN, **change}, "tasks.jsonl:3")
    assert str(failure.value).startswith("tasks.jsonl:3: ")
    assert said in str(failure.value)


def test_two_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(GIVEN) + "\n" + json.dumps(GIVEN) + "\n")
    with pytest.raises(CanaryError, match="two tasks are called 'a'"):
        read_tasks(path)
    path.write_text("\n")
    with pytest.raises(CanaryError, match="no tasks"):
        read_tasks(path)


def test_the_target_is_the_answer_unless_said(tasks: tuple[Task, ...]) -> None:
    assert task_of(GIVEN, "").likely == "4"
    assert task_of({**GIVEN, "target": " 4;"}, "").likely == " 4;"
    assert task_of({**GIVEN, "target": ""}, "").likely is None
    assert all(task.likely is None for task in tasks if task.kind is Kind.CODE)


FAMILY = """
version: 1
family: mine
share: 1
score: number
templates:
  - name: one
    draw: {a: {integer: [1, 9]}}
    prompt: What is <<a>> + 1?
    answer: "<<a + 1>>"
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("share: 1", "share: many", "not a family"),
        ("share: 1\n", "", "share is missing"),
        ("score: number\n", "", "score is missing"),
        ("{integer: [1, 9]}", "{intger: [1, 9]}", "can't draw"),
        ("{integer: [1, 9]}", "{integer: 9}", "can't draw"),
        ("<<a + 1>>", "<<b + 1>>", "not an expression here"),
        ("<<a + 1>>", "<<a.real>>", "only whole numbers"),
        ("prompt:", "where: a > 9\n    prompt:", "nothing that is drawn fits"),
        ("version: 1", "version: [", "not YAML"),
    ],
)
def test_what_is_wrong_with_a_family_is_said(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "mine.yml").write_text(FAMILY.replace(old, new))
    with pytest.raises(CanaryError) as failure:
        make_tasks(read_families(tmp_path), "1", 5)
    assert said in str(failure.value)
    assert "mine.yml" in str(failure.value)


def test_a_folder_without_families(tmp_path: Path) -> None:
    with pytest.raises(CanaryError, match="no task families"):
        read_families(tmp_path)


@needs_sandbox
def test_a_reference_that_fails_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text("""
version: 1
family: mine
share: 1
score: code
templates:
  - name: one
    prompt: Write f.
    function: f
    cases: 2
    arguments: {x: {integer: [1, 9]}}
    reference: "def f(x): return x / 0"
""")
    with pytest.raises(CanaryError, match="ZeroDivisionError"):
        make_tasks(read_families(tmp_path), "1", 5)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a * b - 7", 5),
        ("-(a + 2) % b", 3),
        ("a // 2 + values[1]", 3),
        ("sum(values)", 6),
        ("sorted(values)", [1, 2, 3]),
        ("a < b and b != 5", True),
    ],
)
def test_expressions(text: str, value: object) -> None:
    assert evaluate(text, {"a": 3, "b": 4, "values": [3, 2, 1]}, "x") == value


@given(st.text(alphabet="ab()[]+*-/%<=.0123456789_'\" ,:lambdfor", max_size=40))
@settings(deadline=None, max_examples=200)
def test_no_expression_does_anything_else(text: str) -> None:
    try:
        evaluate(text, {"a": 3, "b": 4}, "x")
    except CanaryError:
        return
