"""Ask a served model every question once, under a given load."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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

    Each question costs two requests: one that answers, one that only reads the right answer.
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
            texts = _texts(client, [each.prompt for each in asked])
            likely = _likely(client, [each.prompt + each.right for each in asked])
            for place, text, logprob in zip(batch, texts, likely, strict=True):
                answers[place] = Answer(text, logprob)

        for _ in pool.map(one, batches):
            pass
    return [answers[place] for place in range(len(questions))]


def _complete(client: httpx.Client, **wanted: object) -> list[dict[str, object]]:
    response = client.post("/v1/completions", json={"model": MODEL, "temperature": 0, **wanted})
    response.raise_for_status()
    choices: list[dict[str, object]] = response.json()["choices"]
    return sorted(choices, key=lambda choice: int(str(choice["index"])))


def _texts(client: httpx.Client, prompts: list[str]) -> list[str]:
    choices = _complete(client, prompt=prompts, max_tokens=ANSWER)
    return [str(choice["text"]) for choice in choices]


def _likely(client: httpx.Client, texts: list[str]) -> list[float]:
    choices = _complete(client, prompt=texts, max_tokens=1, echo=True, logprobs=0)
    likely = []
    for choice in choices:
        values = choice["logprobs"]["token_logprobs"]  # type: ignore[index]
        likely.append(sum(values[PROMPT : PROMPT + ANSWER]))
    return likely
