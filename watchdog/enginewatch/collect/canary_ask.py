"""Asks an engine a canary's questions, several at a time, and scores what it says."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import httpx

from enginewatch.canary.baseline import Answer
from enginewatch.canary.degenerate import Fault
from enginewatch.canary.score import Grade, score
from enginewatch.canary.task import Kind, Task
from enginewatch.collect.api import base_of, exchange
from enginewatch.collect.canary_dialect import (
    NOT_JSON,
    likelihood,
    question,
    read_likelihood,
    read_reply,
    sum_of,
)
from enginewatch.collect.http import TlsSettings
from enginewatch.collect.probe_dialect import (
    Ask,
    Result,
    first_model,
    models_request,
    result_of,
)
from enginewatch.collect.target import ScrapeTarget
from enginewatch.errors import EnginewatchError

_MOST_BYTES: Final = 4 * 1024 * 1024
"""Of an answer that are read: 64 Ki characters are scored, with log-probabilities beside them."""
_FAILURES: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)


class Logprobs(StrEnum):
    """Where log-probabilities come from; `auto` finds out what the server can do."""

    AUTO = "auto"
    FORCED = "forced"
    SAID = "said"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Questions:
    """How to ask. `body` has keys to add to each request, or to put in the place of its own."""

    model: str | None = None
    chat: bool = False
    logprobs: Logprobs = Logprobs.AUTO
    timeout: float = 120.0
    port: int | None = None
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There was no answer to score, which says nothing of quality."""

    result: Result
    problem: str


class AskError(EnginewatchError):
    """The engine can't be asked at all."""


class Asker:
    """One engine. Connections are kept open between questions.

    `spent` is how many tokens it was made to read and write so far.
    """

    def __init__(
        self,
        target: ScrapeTarget,
        questions: Questions,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ):
        self._target: Final = target
        self._questions: Final = questions
        self._tls: Final = TlsSettings(target.job.tls_config)
        self._transport: Final = transport
        self._client: httpx.AsyncClient | None = None
        self._runtime: Final = target.target.labels.get("runtime", "")
        self._base: Final = base_of(target, questions.port)
        self._mode = Logprobs.OFF if self._runtime == "triton" else questions.logprobs
        self.model = questions.model
        self.spent = 0

    async def find_model(self) -> str:
        """The model that is asked: the one given, or the first of the list. Raises AskError."""
        if self.model is None:
            ask = models_request(self._runtime)
            try:
                status, body = await self._send(ask)
            except TimeoutError:
                raise AskError("no answer in time", where=self._where(ask)) from None
            except _FAILURES as failure:
                raise AskError(_reason(failure), where=self._where(ask)) from None
            self.model = first_model(self._runtime, body) if status == 200 else None
            if self.model is None:
                what = f"HTTP {status}, and no model in the answer"
                raise AskError(what, where=self._where(ask), hint="name it with --model")
        return self.model

    async def version(self) -> str:
        """The engine's version, where it tells (vLLM's `/version`); else nothing."""
        try:
            status, body = await self._send(Ask("/version"))
            found = json.loads(body) if status == 200 else {}
        except (TimeoutError, *_FAILURES):
            return ""
        return str(found.get("version", ""))[:100] if isinstance(found, dict) else ""

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def ask(self, task: Task) -> Answer | Unanswered:
        """One answer, scored. Raises only what `find_model` and secrets raise."""
        model = await self.find_model()
        said = self._mode is Logprobs.SAID and task.likely is not None
        found = await self._question(model, task, said=said)
        if said and isinstance(found, Unanswered) and found.result is Result.REFUSED:
            said, self._mode = False, Logprobs.OFF  # it does not know the parameter
            found = await self._question(model, task, said=False)
        if not isinstance(found, bytes):
            return found
        reply = read_reply(found)
        if reply is None:
            return Unanswered(Result.FAILING, "the answer is not one")
        self.spent += reply.tokens
        value = await self._likelihood(model, task)
        if said and task.likely is not None:
            value = sum_of(reply, task.likely)
        return await _scored(task, reply.text, value, nan=reply.has_nan)

    async def _question(self, model: str, task: Task, *, said: bool) -> bytes | Answer | Unanswered:
        chat = self._questions.chat
        return await self._post(question(self._runtime, model, task, chat=chat, logprobs=said))

    async def _likelihood(self, model: str, task: Task) -> float | None:
        target = task.likely
        if target is None or self._mode not in {Logprobs.AUTO, Logprobs.FORCED}:
            return None
        found = await self._post(likelihood(model, task, target, chat=self._questions.chat))
        value = read_likelihood(found, target) if isinstance(found, bytes) else None
        if isinstance(found, bytes):
            self.spent += len(task.prompt + target) // 4 + 1
        if isinstance(found, Answer):
            return math.nan
        if value is None and self._mode is Logprobs.AUTO and not _may_pass(found):
            self._mode = Logprobs.SAID
        elif value is not None:
            self._mode = Logprobs.FORCED
        return value

    async def _post(self, ask: Ask) -> bytes | Answer | Unanswered:
        """The body of an answer; an `Answer` where what came is one without a text."""
        try:
            status, body = await self._send(ask)
        except TimeoutError:
            problem = f"no answer within {self._questions.timeout:g} s"
            return Unanswered(Result.DEADLINE, problem)
        except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
            return Unanswered(Result.UNREACHABLE, _reason(failure))
        except _FAILURES as failure:
            return Unanswered(Result.FAILING, _reason(failure))
        return self._read(ask, status, body)

    def _read(self, ask: Ask, status: int, body: bytes) -> bytes | Answer | Unanswered:
        if NOT_JSON in body:
            return Answer("", passed=False, faults=frozenset({Fault.NAN}))
        if len(body) > _MOST_BYTES:
            return Answer(f"(over {_MOST_BYTES >> 20} MiB)", passed=False)
        if status != 200:
            return Unanswered(result_of(status), f"{ask.path}: HTTP {status}")
        return body

    async def _send(self, ask: Ask) -> tuple[int, bytes]:
        async with asyncio.timeout(self._questions.timeout):
            if ask.body is not None and self._questions.body:
                ask = ask._replace(body={**ask.body, **self._questions.body})
            return await exchange(self._ready(), self._base, ask, self._target, _MOST_BYTES)

    def _ready(self) -> httpx.AsyncClient:
        if self._client is None:
            context = self._tls.context() if self._base.scheme == "https" else False
            self._client = httpx.AsyncClient(
                transport=self._transport or httpx.AsyncHTTPTransport(verify=context),
                timeout=None,  # noqa: S113 - asyncio.timeout has the whole of it
                trust_env=False,
            )
        return self._client

    def _where(self, ask: Ask) -> str:
        return str(self._base.copy_with(path=ask.path))


async def ask_all(
    asker: Asker,
    tasks: Sequence[Task],
    concurrency: int,
    tell: Callable[[int, Answer | Unanswered], None] = lambda *_: None,
) -> list[Answer | Unanswered]:
    """The answers to all tasks, in their order; `tell` hears of each as it comes.

    Raises AskError, and ConfigError for secrets that can't be read.
    """
    await asker.find_model()
    places = asyncio.Semaphore(concurrency)

    async def one(place: int, task: Task) -> Answer | Unanswered:
        async with places:
            answer = await asker.ask(task)
        tell(place, answer)
        return answer

    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one(place, task)) for place, task in enumerate(tasks)]
    except BaseExceptionGroup as failures:
        known = failures.subgroup(EnginewatchError)
        if known is None:
            raise
        raise _first(known) from None
    return [each.result() for each in asked]


async def ask_patiently(
    asker: Asker,
    tasks: Sequence[Task],
    concurrency: int,
    tell: Callable[[int, Answer | Unanswered], None] = lambda *_: None,
) -> list[Answer | Unanswered]:
    """As `ask_all`, and those that were not answered once more, a few at a time, unless that is
    all of them: an engine may be busy for a moment."""
    found = await ask_all(asker, tasks, concurrency, tell)
    missing = [place for place, answer in enumerate(found) if isinstance(answer, Unanswered)]
    if 0 < len(missing) < len(tasks):
        again = [tasks[place] for place in missing]
        answers = await ask_all(asker, again, max(1, concurrency // 4))
        for place, answer in zip(missing, answers, strict=True):
            found[place] = answer
    return found


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    first: BaseException = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def _scored(task: Task, text: str, value: float | None, *, nan: bool) -> Answer:
    if task.kind is Kind.CODE:  # which runs it
        found = await asyncio.to_thread(score, task, text)
    else:
        found = score(task, text)
    nan = nan or (value is not None and math.isnan(value))
    known = value is not None and math.isfinite(value)
    return Answer(
        text,
        None if found.grade is Grade.UNSCORED else found.passed,
        min(value, 0.0) if known and value is not None else None,
        frozenset({Fault.NAN}) if nan else frozenset(),
    )


def _may_pass(found: bytes | Unanswered) -> bool:
    """Whether it is not for the kind of server that there was no log-probability."""
    return isinstance(found, Unanswered) and found.result not in {
        Result.REFUSED,
        Result.UNSUPPORTED,
    }


def _reason(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
