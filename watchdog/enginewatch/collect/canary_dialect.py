"""How a canary's question is put to each kind of server, and its answer read: pure functions.

The log-probability of the right answer is asked for in a request of its own, in which the
answer stands as a part of the prompt (`echo` of completions, vLLM's `prompt_logprobs` of
chats): so it is of the same tokens each time, whatever the model would have said. Where a
server can't, the log-probabilities of what it said count, where it said just that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from enginewatch.canary.task import Task
from enginewatch.collect.probe_dialect import CHAT, COMPLETIONS, Ask

NOT_JSON: Final = b"not JSON compliant"
"""What is left of NaN in an answer of vLLM's server, with 400 or 500 (vLLM #42426)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server said. `logprobs` are of the tokens of the answer."""

    text: str
    tokens: int
    logprobs: tuple[tuple[str, float], ...] = ()

    @property
    def has_nan(self) -> bool:
        return any(math.isnan(value) for _, value in self.logprobs)


def question(runtime: str, model: str, task: Task, *, chat: bool, logprobs: bool) -> Ask:
    """A request for an answer, greedy."""
    if runtime == "triton":
        given: dict[str, Any] = {"text_input": task.prompt, "max_tokens": task.max_tokens}
        return Ask(f"/v2/models/{model}/generate", {**given, "temperature": 0})
    body: dict[str, Any] = {"model": model, "max_tokens": task.max_tokens, "temperature": 0}
    if task.stop:
        body["stop"] = list(task.stop)
    if chat:
        body["messages"] = [{"role": "user", "content": task.prompt}]
        return Ask(CHAT, {**body, "logprobs": True} if logprobs else body)
    body["prompt"] = task.prompt
    return Ask(COMPLETIONS, {**body, "logprobs": 1} if logprobs else body)


def likelihood(model: str, task: Task, target: str, *, chat: bool) -> Ask:
    """A request for the log-probabilities of `target` after the task's prompt."""
    body: dict[str, Any] = {"model": model, "max_tokens": 1, "temperature": 0}
    if chat:
        messages = [
            {"role": "user", "content": task.prompt},
            {"role": "assistant", "content": target},
        ]
        whole = {"add_generation_prompt": False, "continue_final_message": True}
        return Ask(CHAT, {**body, "messages": messages, "prompt_logprobs": 0, **whole})
    return Ask(COMPLETIONS, {**body, "prompt": task.prompt + target, "echo": True, "logprobs": 1})


def read_reply(body: bytes) -> Reply | None:
    """An answer, of OpenAI's API or Triton's; None where there is none to be read."""
    found = _json(body)
    if "text_output" in found:
        text = found["text_output"]
        return Reply(text, len(text) // 4) if isinstance(text, str) else None
    choice = _choice(found)
    if choice is None:
        return None
    message = choice.get("message")
    text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    text = text if isinstance(text, str) else ""  # null is what some give for nothing
    usage = found.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    tokens = total if isinstance(total, int) and total >= 0 else len(body) // 4
    return Reply(text, tokens, tuple(_said(choice.get("logprobs"))))


def read_likelihood(body: bytes, target: str) -> float | None:
    """The log-probability of `target`, all its tokens together (nats); NaN where that is what the
    server gives, None where it gives none."""
    found = _json(body)
    choice = _choice(found)
    if choice is None:
        return None
    prompt = found.get("prompt_logprobs", choice.get("prompt_logprobs"))
    if isinstance(prompt, Sequence) and not isinstance(prompt, str):
        return _at_end(list(_listed(prompt)), target)
    usage = found.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    tokens = list(_said(choice.get("logprobs")))
    if not isinstance(count, int) or not 0 < count <= len(tokens):
        return None
    return _at_end(tokens[:count], target)


def sum_of(reply: Reply, target: str) -> float | None:
    """The same from what a model said itself, where it said the target and nothing else."""
    if not reply.logprobs or reply.text.strip() != target.strip():
        return None
    return math.fsum(value for _, value in reply.logprobs)


def _at_end(tokens: Sequence[tuple[str, float]], target: str) -> float | None:
    """The sum over the last tokens that make up `target`; a first one may begin before it."""
    text, total = "", 0.0
    for token, value in reversed(tokens):
        text, total = token + text, total + value
        if len(text) >= len(target):
            # Tokens of half a character are told as U+FFFD or as bytes: then only lengths fit.
            return total
    return None


def _said(logprobs: Any) -> Iterable[tuple[str, float]]:
    """Tokens with their log-probabilities, in the form of completions or of chats."""
    if not isinstance(logprobs, Mapping):
        return
    content = logprobs.get("content")
    if isinstance(content, list):
        rows = [
            (one.get("token"), one.get("logprob")) for one in content if isinstance(one, Mapping)
        ]
    else:
        tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
        if not (isinstance(tokens, list) and isinstance(values, list)):
            return
        rows = list(zip(tokens, values, strict=False))
    for token, value in rows:
        if isinstance(token, str):
            # The first token of a prompt has none; it is never of an answer.
            yield token, float(value) if isinstance(value, int | float) else 0.0


def _listed(prompt: Sequence[Any]) -> Iterable[tuple[str, float]]:
    """vLLM's `prompt_logprobs`: for each token an object of one entry, null for the first."""
    for entry in prompt:
        one = next(iter(entry.values()), None) if isinstance(entry, Mapping) else None
        if isinstance(one, Mapping) and isinstance(one.get("logprob"), int | float):
            yield str(one.get("decoded_token") or ""), float(one["logprob"])


def _choice(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = found.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else None


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}
