"""What a probe says to each kind of server, and what an answer means: pure functions.

`/health_generate` of trtllm-serve and SGLang is not used: the first has no deadline of
its own, the second one of 20 s, and the deadline must be ours. SGLang's `/health` is the
same handler, and so is not asked either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from enginewatch.config import ProbeConfig


class Result(StrEnum):
    """How a probe ended.

    Only `answered` proves progress. `busy` (429) and `failing` (5xx, or no answer that
    can be read) come from a server that lives. `refused` is for whoever configured the
    probe: a wrong model, prompt or credential. `unsupported`: nothing here takes probes.
    """

    ANSWERED = "answered"
    DEADLINE = "deadline"
    UNREACHABLE = "unreachable"
    STARTING = "starting"
    BUSY = "busy"
    FAILING = "failing"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"


class Ask(NamedTuple):
    """A request: GET without a body, POST of JSON with one."""

    path: str
    body: Mapping[str, Any] | None = None


class Server(NamedTuple):
    """Where a runtime's API is, and what says that it is there, if anything cheap does."""

    health: str | None
    port: int | None = None


_OPENAI: Final = Server("/health")
SERVERS: Final[Mapping[str, Server]] = {
    "vllm": _OPENAI,
    "trtllm": _OPENAI,
    "sglang": Server(None),
    "nim": Server("/v1/health/live"),
    "dynamo": _OPENAI,
    # Metrics are at 8002, the API is at 8000.
    "triton": Server("/v2/health/live", 8000),
}
_TRITON_ENTRIES: Final = ("ensemble", "tensorrt_llm_bls", "vllm_model")
"""Models that take text, by the names that NVIDIA's own repositories of models use."""

COMPLETIONS: Final = "/v1/completions"
CHAT: Final = "/v1/chat/completions"


def server_of(runtime: str) -> Server:
    return SERVERS.get(runtime, _OPENAI)


def models_request(runtime: str) -> Ask:
    """What lists the models that are served."""
    return (
        Ask("/v2/repository/index", {"ready": True}) if runtime == "triton" else Ask("/v1/models")
    )


def first_model(runtime: str, body: bytes) -> str | None:
    """The model to probe, from the answer to `models_request`; None where it tells none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if runtime == "triton":
        names = {one.get("name") for one in found if isinstance(one, dict)} if found else set()
        return next((name for name in _TRITON_ENTRIES if name in names), None)
    listed = found.get("data") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return None
    names_in_order = (one.get("id") for one in listed if isinstance(one, dict))
    return next((name for name in names_in_order if isinstance(name, str) and name), None)


def probe_request(runtime: str, settings: ProbeConfig, model: str, *, chat: bool) -> Ask:
    """A request for one token."""
    if runtime == "triton":
        path = f"/v2/models/{model}/generate"
        body: dict[str, Any] = {"text_input": settings.prompt, "max_tokens": 1}
    elif chat:
        path = CHAT
        messages = [{"role": "user", "content": settings.prompt}]
        body = {"model": model, "messages": messages, "max_tokens": 1, "temperature": 0}
    else:
        path = COMPLETIONS
        body = {"model": model, "prompt": settings.prompt, "max_tokens": 1, "temperature": 0}
    return Ask(settings.path or path, {**body, **settings.body})


def result_of(status: int) -> Result:
    """What the HTTP status of a probe means."""
    if 200 <= status < 300:
        return Result.ANSWERED
    if status == 429:
        return Result.BUSY
    if status in {404, 405, 501}:
        return Result.UNSUPPORTED
    if 400 <= status < 500:
        return Result.REFUSED
    return Result.STARTING if status == 503 else Result.FAILING
