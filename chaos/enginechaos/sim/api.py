"""The OpenAI routes: completions and chat, whole and streamed, and models."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from enginechaos.sim.client import EngineClient, EngineDead
from enginechaos.sim.engine import Output, Request
from enginechaos.sim.settings import Settings
from enginechaos.sim.tokens import pieces, token_ids

_GONE: Final = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class _Bad(Exception):  # noqa: N818
    """What is wrong with a request."""


class Api:
    def __init__(self, settings: Settings, client: EngineClient):
        self._settings: Final = settings
        self._client: Final = client
        self._started: Final = int(time.time())

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/v1/models", self.models),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
        ]

    async def models(self, _: HttpRequest) -> Response:
        model = {
            "id": self._settings.model,
            "object": "model",
            "created": self._started,
            "owned_by": "vllm",
            "root": self._settings.model,
            "parent": None,
            "max_model_len": self._settings.max_model_len,
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def completions(self, http: HttpRequest) -> Response:
        return await self._answer(http, "cmpl", _prompt, _Completion)

    async def chat(self, http: HttpRequest) -> Response:
        return await self._answer(http, "chatcmpl", _conversation, _Chat)

    async def _answer(
        self,
        http: HttpRequest,
        prefix: str,
        read: Callable[[dict[str, Any]], str],
        form: type[_Form],
    ) -> Response:
        name = f"{prefix}-{uuid.uuid4().hex[:16]}"
        try:
            body = await http.json()
            request = self._request(name, body, read)
        except (ValueError, TypeError, KeyError, _Bad) as failure:
            return _error(400, str(failure), "BadRequestError")
        if body.get("model") not in {None, self._settings.model}:
            return _error(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        if self._client.dead:
            return _error(500, _GONE, "InternalServerError")
        shape = form(name, self._settings.model, request)
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return StreamingResponse(
                self._stream(request, shape, usage), media_type="text/event-stream"
            )
        return await self._whole(http, request, shape)

    def _request(
        self, name: str, body: dict[str, Any], read: Callable[[dict[str, Any]], str]
    ) -> Request:
        prompt = read(body)
        length = len(token_ids(prompt))
        longest = self._settings.max_model_len
        if length >= longest:
            raise _Bad(
                f"This model's maximum context length is {longest} tokens. However, your prompt "
                "contains "
                f"{length} tokens."
            )
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        logprobs = body.get("logprobs")
        if logprobs is True:
            logprobs = int(body.get("top_logprobs") or 0)
        return Request(
            name,
            prompt,
            int(limit) if limit else (16 if "prompt" in body else longest),
            bool(body.get("ignore_eos")),
            None if logprobs is None or logprobs is False else int(logprobs),
            bool(body.get("echo")),
        )

    async def _stream(self, request: Request, shape: _Form, usage: bool) -> AsyncIterator[str]:
        last: Output | None = None
        count = 0
        try:
            async for output in self._client.generate(request):
                last = output
                count += len(output.pieces)
                yield _event(shape.chunk(output))
            if usage and last is not None:
                yield _event(shape.envelope([], chunk=True, usage=_usage(last, count)))
            yield "data: [DONE]\n\n"
        except EngineDead:
            yield _event({"error": {"message": _GONE, "type": "InternalServerError", "code": 500}})
            yield "data: [DONE]\n\n"

    async def _whole(self, http: HttpRequest, request: Request, shape: _Form) -> Response:
        work = asyncio.ensure_future(self._collect(request))
        gone = asyncio.ensure_future(_disconnected(http))
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not work.done():
            work.cancel()
            return Response(status_code=499)
        try:
            outputs = work.result()
        except EngineDead:
            return _error(500, _GONE, "InternalServerError")
        count = sum(len(output.pieces) for output in outputs)
        try:
            return JSONResponse(shape.whole(outputs, _usage(outputs[-1], count)))
        except ValueError:  # NaN: what vLLM's clients get of broken logits
            return _error(
                400, "Out of range float values are not JSON compliant", "BadRequestError"
            )

    async def _collect(self, request: Request) -> list[Output]:
        return [output async for output in self._client.generate(request)]


class _Form:
    """How an answer is written; `chunk` for a part of a stream."""

    kind = ""
    chunk_kind = ""

    def __init__(self, name: str, model: str, request: Request):
        self._echo = pieces(request.prompt) if request.echo else []
        self._head = {"id": name, "created": int(time.time()), "model": model}
        self._with_logprobs = request.logprobs is not None
        self._written = 0

    def envelope(
        self, choices: list[dict[str, Any]], *, chunk: bool, usage: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        kind = self.chunk_kind if chunk else self.kind
        return {**self._head, "object": kind, "choices": choices, "usage": usage}

    def chunk(self, output: Output) -> dict[str, Any]:
        return self.envelope([self._choice(output, chunk=True)], chunk=True)

    def whole(self, outputs: list[Output], usage: dict[str, Any]) -> dict[str, Any]:
        said = [piece for output in outputs for piece in output.pieces]
        logprobs = [each for output in outputs for each in output.logprobs]
        joined = replace(
            outputs[-1],
            pieces=(*self._echo, *said),
            logprobs=(*outputs[0].echoed, *logprobs),
        )
        return self.envelope([self._choice(joined, chunk=False)], chunk=False, usage=usage)

    def _choice(self, output: Output, *, chunk: bool) -> dict[str, Any]:
        return {
            "index": 0,
            **self._said("".join(output.pieces), chunk=chunk),
            "logprobs": self._logprobs(output) if self._with_logprobs else None,
            "finish_reason": output.finish,
            "stop_reason": None,
        }

    def _said(self, text: str, *, chunk: bool) -> dict[str, Any]:
        raise NotImplementedError

    def _logprobs(self, output: Output) -> dict[str, Any]:
        raise NotImplementedError


class _Completion(_Form):
    kind = chunk_kind = "text_completion"

    def _said(self, text: str, *, chunk: bool) -> dict[str, Any]:  # noqa: ARG002
        return {"text": text}

    def _logprobs(self, output: Output) -> dict[str, Any]:
        offsets = []
        for piece in output.pieces:
            offsets.append(self._written)
            self._written += len(piece)
        return {
            "tokens": list(output.pieces),
            "token_logprobs": list(output.logprobs),
            "top_logprobs": [
                {piece: logprob}
                for piece, logprob in zip(output.pieces, output.logprobs, strict=True)
            ],
            "text_offset": offsets,
        }


class _Chat(_Form):
    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def _said(self, text: str, *, chunk: bool) -> dict[str, Any]:
        if not chunk:
            return {"message": {"role": "assistant", "content": text}}
        role = {} if self._written else {"role": "assistant"}
        self._written += len(text)
        return {"delta": {**role, "content": text}}

    def _logprobs(self, output: Output) -> dict[str, Any]:
        return {
            "content": [
                {
                    "token": piece,
                    "logprob": logprob,
                    "bytes": list(piece.encode()),
                    "top_logprobs": [],
                }
                for piece, logprob in zip(output.pieces, output.logprobs, strict=True)
            ]
        }


def _prompt(body: dict[str, Any]) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise _Bad("prompt: one text is served")
    return prompt


def _conversation(body: dict[str, Any]) -> str:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _Bad("messages: a list of at least one is needed")
    return "\n".join(str(message.get("content") or "") for message in messages)


def _usage(last: Output, count: int) -> dict[str, Any]:
    return {
        "prompt_tokens": last.prompt_tokens,
        "total_tokens": last.prompt_tokens + count,
        "completion_tokens": count,
    }


def _event(message: dict[str, Any]) -> str:
    return f"data: {json.dumps(message, separators=(',', ':'))}\n\n"


def _error(status: int, message: str, kind: str) -> Response:
    return JSONResponse(
        {"error": {"message": message, "type": kind, "param": None, "code": status}},
        status_code=status,
    )


async def _disconnected(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
