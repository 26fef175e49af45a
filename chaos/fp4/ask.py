"""Ask a served model every question once, under a given load."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import httpx
from chaos.fp4.arithmetic import ANSWER, PROMPT
from chaos.fp4.serving import MODEL
from chaos.fp4.tasks import Question


@dataclass(frozen=True, slots=True)
class Load:
    """How many requests are under way at once, and how many prompts each carries."""

    concurrency: int
    prompts: int
    seed: int = 0  # of the order in which questions are asked

    @property
    def name(self) -> str:
        return f"{self.concurrency} at once, {self.prompts} prompts each, order {self.seed}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said (`;` ends an answer and is not in the text), and the log-probability of
    the right answer: nats, its six tokens together, as the canary counts."""

    text: str
    logprob: float


def ask(url: str, questions: list[Question], load: Load) -> list[Answer]:
    """The answers in the order of the questions, whatever order they were asked in.

    A right answer tells its own log-probability; after a wrong one the right one is read once more.
    Raises httpx.HTTPError.
    """
    order = list(range(len(questions)))
    random.Random(load.seed).shuffle(order)  # noqa: S311  nothing secret
    batches = [order[at : at + load.prompts] for at in range(0, len(order), load.prompts)]
    answers: dict[int, Answer] = {}
    with (
        httpx.Client(base_url=url, timeout=300) as client,
        ThreadPoolExecutor(load.concurrency) as pool,
    ):

        def one(batch: list[int]) -> None:
            asked = [questions[place] for place in batch]
            said = _said(client, asked)
            missed = [n for n, each in enumerate(said) if each.text != asked[n].right[:-1]]
            likely = _likely(client, [asked[n] for n in missed])
            for n, logprob in zip(missed, likely, strict=True):
                said[n] = Answer(said[n].text, logprob)
            answers.update(zip(batch, said, strict=True))

        for _ in pool.map(one, batches):
            pass
    return [answers[place] for place in range(len(questions))]


class _Choice(NamedTuple):
    """One completion. With `echo`, the first token has no log-probability: 0 here."""

    text: str
    logprobs: list[float]


def _complete(client: httpx.Client, **wanted: object) -> list[_Choice]:
    response = client.post("/v1/completions", json={"model": MODEL, "temperature": 0, **wanted})
    response.raise_for_status()
    choices = sorted(response.json()["choices"], key=lambda choice: int(choice["index"]))
    return [
        _Choice(choice["text"], [each or 0.0 for each in choice["logprobs"]["token_logprobs"]])
        for choice in choices
    ]


def _said(client: httpx.Client, asked: list[Question]) -> list[Answer]:
    prompts = [question.prompt for question in asked]
    choices = _complete(client, prompt=prompts, max_tokens=ANSWER, logprobs=0)
    return [Answer(choice.text, sum(choice.logprobs)) for choice in choices]


def _likely(client: httpx.Client, asked: list[Question]) -> list[float]:
    """Log-probabilities of right answers that the model did not give."""
    if not asked:
        return []
    texts = [question.prompt + question.right for question in asked]
    choices = _complete(client, prompt=texts, max_tokens=1, echo=True, logprobs=0)
    return [sum(choice.logprobs[PROMPT : PROMPT + ANSWER]) for choice in choices]
