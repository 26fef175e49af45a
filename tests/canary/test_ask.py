"""Engines asked over real HTTP: what is said, what it is likely, and what else may come back."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.canary.engine import Engine
from tests.support.server import serve

from enginewatch.canary.baseline import Answer
from enginewatch.canary.degenerate import Fault
from enginewatch.canary.task import Kind, Task
from enginewatch.collect.canary_ask import (
    Asker,
    AskError,
    Logprobs,
    Questions,
    Unanswered,
    ask_all,
)
from enginewatch.collect.canary_dialect import Reply, read_likelihood, read_reply, sum_of
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.probe_dialect import Result
from enginewatch.config import config_for_urls

TASKS = [
    Task(f"t{n}", "sums", f"What is {n} + {n}?", Kind.NUMBER, str(2 * n), max_tokens=8)
    for n in range(20)
]


def asker(url: str, **questions: Any) -> Asker:
    (target,) = Discovery(config_for_urls([url])).targets(0).targets
    return Asker(target, Questions(**questions))


def answers(
    engine: Engine, tasks: list[Task] = TASKS, concurrency: int = 8, **questions: Any
) -> tuple[list[Answer | Unanswered], Asker]:
    async def work(url: str) -> tuple[list[Answer | Unanswered], Asker]:
        one = asker(url, **questions)
        try:
            return await ask_all(one, tasks, concurrency), one
        finally:
            await one.close()

    with serve(engine.app()) as url:
        return asyncio.run(work(url))


@pytest.mark.parametrize("chat", [False, True])
def test_right_answers_with_their_log_probabilities(chat: bool) -> None:
    engine = Engine(TASKS)
    found, one = answers(engine, chat=chat)
    for task, answer in zip(TASKS, found, strict=True):
        assert isinstance(answer, Answer)
        assert answer.passed
        assert answer.logprob == pytest.approx(-0.001 * len(task.answer)), "a token a character"
    assert one.model == "small"
    assert one.spent > 20 * 10
    asked = [body for body in engine.asked if "max_tokens" in body]
    assert all(body["temperature"] == 0 for body in asked)
    assert len(asked) == 40, "one request for the answer, one for its probability"


@pytest.mark.parametrize("chat", [False, True])
def test_without_echo_what_is_said_counts(chat: bool) -> None:
    found, _ = answers(Engine(TASKS, echo=False), chat=chat, concurrency=1)
    logprobs = [each.logprob for each in found if isinstance(each, Answer)]
    assert logprobs[0] is None, "the first finds out"
    assert all(each is not None for each in logprobs[1:])


def test_what_is_said_does_not_count_if_it_is_something_else() -> None:
    engine = Engine(TASKS)
    engine.spoil = lambda task, answer: f"It is {answer}."
    found, _ = answers(engine, logprobs=Logprobs.SAID)
    assert all(isinstance(each, Answer) and each.passed for each in found)
    assert {each.logprob for each in found if isinstance(each, Answer)} == {None}


def test_an_engine_without_log_probabilities_is_asked_all_the_same() -> None:
    found, _ = answers(Engine(TASKS, echo=False, logprobs=False), concurrency=1)
    assert all(isinstance(each, Answer) and each.passed for each in found)


def test_off_is_one_request_a_task() -> None:
    engine = Engine(TASKS)
    answers(engine, logprobs=Logprobs.OFF, body={"cache_salt": "x"})
    assert len(engine.asked) == 20
    assert engine.asked[0]["cache_salt"] == "x"
    assert "logprobs" not in engine.asked[0]


def test_questions_are_asked_together() -> None:
    together = 0

    class Slow(Engine):
        async def _complete(self, request: Request) -> Response:
            nonlocal together
            self.running += 1
            together = max(together, self.running)
            await asyncio.sleep(0.1)
            self.running -= 1
            return await super()._complete(request)

    answers(Slow(TASKS), concurrency=8, logprobs=Logprobs.OFF)
    assert 4 <= together <= 8


def test_nan_in_log_probabilities_is_a_fault() -> None:
    engine = Engine(TASKS)
    engine.logprob = lambda: math.nan
    found, _ = answers(engine)
    assert all(isinstance(each, Answer) and Fault.NAN in each.faults for each in found)
    assert all(isinstance(each, Answer) and each.logprob is None for each in found)


def raw(body: bytes, status: int = 200) -> Starlette:
    async def reply(_: Request) -> Response:
        return Response(body, status, media_type="application/json")

    async def models(_: Request) -> Response:
        return Response(b'{"data": [{"id": "m"}]}')

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/completions", reply, methods=["POST"]),
        ]
    )


def one_answer(app: Starlette, **questions: Any) -> Answer | Unanswered:
    async def work(url: str) -> Answer | Unanswered:
        one = asker(url, **questions)
        try:
            return await one.ask(TASKS[0])
        finally:
            await one.close()

    with serve(app) as url:
        return asyncio.run(work(url))


def test_nan_as_vllm_s_server_tells_of_it() -> None:
    said = b'{"message": "Out of range float values are not JSON compliant: nan"}'
    found = one_answer(raw(said, 400))
    assert found == Answer("", passed=False, faults=frozenset({Fault.NAN}))


def test_a_flood_is_wrong_and_not_kept() -> None:
    found = one_answer(raw(json.dumps({"choices": [{"text": "4" * 9_000_000}]}).encode()))
    assert isinstance(found, Answer)
    assert found.passed is False
    assert len(found.text) < 100


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (429, Result.BUSY),
        (503, Result.STARTING),
        (500, Result.FAILING),
        (401, Result.REFUSED),
        (404, Result.UNSUPPORTED),
    ],
)
def test_no_answer_says_nothing_of_quality(status: int, result: Result) -> None:
    found = one_answer(raw(b"{}", status))
    assert isinstance(found, Unanswered)
    assert found.result is result
    assert str(status) in found.problem


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{}", b'{"choices": []}', b'{"choices": [3]}', b"\xff", b"[" * 9999],
)
def test_nonsense_in_the_place_of_an_answer(body: bytes) -> None:
    found = one_answer(raw(body))
    assert isinstance(found, Unanswered)
    assert found.result is Result.FAILING


def test_null_in_the_place_of_a_text_is_an_empty_answer() -> None:
    found = one_answer(raw(b'{"choices": [{"text": null}]}'), logprobs=Logprobs.OFF)
    assert found == Answer("", passed=False)


def test_an_engine_that_hangs() -> None:
    async def hang(_: Request) -> Response:
        await asyncio.sleep(3)
        return Response()

    routes = [Route("/v1/completions", hang, methods=["POST"])]
    found = one_answer(Starlette(routes=routes), model="m", timeout=0.2)
    assert found == Unanswered(Result.DEADLINE, "no answer within 0.2 s")


def test_nobody_is_there() -> None:
    async def work() -> Answer | Unanswered:
        one = asker("http://127.0.0.1:9", model="m")
        try:
            return await one.ask(TASKS[0])
        finally:
            await one.close()

    found = asyncio.run(work())
    assert isinstance(found, Unanswered)
    assert found.result is Result.UNREACHABLE


@pytest.mark.parametrize("body", [b'{"data": []}', b"<html>", b'{"data": [{"id": 3}]}'])
def test_a_server_that_lists_no_model(body: bytes) -> None:
    async def models(_: Request) -> Response:
        return Response(body)

    async def work(url: str) -> None:
        one = asker(url)
        try:
            await ask_all(one, TASKS, 4)
        finally:
            await one.close()

    app = Starlette(routes=[Route("/v1/models", models)])
    with serve(app) as url, pytest.raises(AskError, match="no model"):
        asyncio.run(work(url))


# Reading, without a server.


def test_the_target_is_at_the_end_of_the_prompt() -> None:
    tokens = ["<s>", "What", "?", " 57", "9;", " and"]
    logprobs = [None, -5.0, -4.0, -0.25, -0.5, -9.0]
    choice = {"logprobs": {"tokens": tokens, "token_logprobs": logprobs}}
    body = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 5}}).encode()
    assert read_likelihood(body, "579;") == -0.75
    assert read_likelihood(body, "What? 579;" + "x" * 99) is None


def test_answers_of_triton_and_of_chats() -> None:
    assert read_reply(b'{"text_output": "four"}') == Reply("four", 1)
    told = {"message": {"content": "4"}, "logprobs": {"content": [{"token": "4", "logprob": -1}]}}
    body = json.dumps({"choices": [told], "usage": {"total_tokens": 9}}).encode()
    assert read_reply(body) == Reply("4", 9, (("4", -1.0),))
    assert sum_of(Reply("4", 9, (("4", -1.0),)), "4") == -1.0
    assert sum_of(Reply("4 or 5", 9, (("4", -1.0),)), "4") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
KEYS = ["choices", "usage", "prompt_logprobs", "text_output"]
INNER = ["text", "message", "logprobs", "content", "tokens", "token_logprobs", "prompt_tokens"]
BODIES = st.dictionaries(
    st.sampled_from(KEYS),
    VALUES
    | st.lists(st.dictionaries(st.sampled_from(INNER), VALUES), max_size=2)
    | st.dictionaries(st.sampled_from(INNER), VALUES),
)


@given(BODIES, st.text(min_size=1, max_size=5))
@settings(deadline=None, max_examples=100)
def test_no_body_breaks_a_reader(value: dict[str, Any], target: str) -> None:
    readers: list[Callable[[bytes], object]] = [read_reply, lambda b: read_likelihood(b, target)]
    for read in readers:
        read(json.dumps(value).encode())
