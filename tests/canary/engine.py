"""An engine that knows the right answers, and gives others where a test wants it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from enginewatch.canary.task import Kind, Task

Spoil = Callable[[Task, str], str]


def right(task: Task) -> str:
    """An answer that is right."""
    if task.kind is Kind.CODE:
        table = [[list(case.arguments), case.value] for case in task.cases]
        return (
            f"```python\ndef {task.function}(*a):\n"
            f"    for k, v in {table!r}:\n        if list(a) == k: return v\n```"
        )
    return task.answer if isinstance(task.answer, str) else json.dumps(task.answer)


class Engine:
    """Completions with `echo`, and chats with `prompt_logprobs`, of one token a character."""

    def __init__(self, tasks: Iterable[Task], *, echo: bool = True, logprobs: bool = True):
        self.tasks = {task.prompt: task for task in tasks}
        self.echo = echo
        self.logprobs = logprobs
        self.spoil: Spoil = lambda _, answer: answer
        self.logprob: Callable[[], float] = lambda: -0.001
        self.status: Callable[[], int] = lambda: 200
        self.asked: list[dict[str, Any]] = []
        self.running = self.most = 0
        self._lock = threading.Lock()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/version", self._version),
                Route("/v1/completions", self._complete, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ]
        )

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "small"}]})

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": "0.32.0"})

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        if self.status() != 200:
            return Response(status_code=self.status())
        prompt = body["prompt"]
        if body.get("echo"):
            return self._echoed(prompt)
        if body.get("logprobs") is not None and not self.logprobs:
            return JSONResponse({"error": "logprobs"}, 400)
        text = self._answer(prompt)
        choice: dict[str, Any] = {"text": text, "finish_reason": "stop"}
        if body.get("logprobs") is not None:
            choice["logprobs"] = self._tokens(text)
        return _json({"choices": [choice], "usage": _usage(prompt, text)})

    def _echoed(self, whole: str) -> Response:
        if not self.echo:
            return JSONResponse({"error": "echo"}, 400)
        choice = {"text": whole + "!", "logprobs": self._tokens(whole + "!")}
        choice["logprobs"]["token_logprobs"][0] = None
        return _json({"choices": [choice], "usage": _usage(whole, "!")})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        if self.status() != 200:
            return Response(status_code=self.status())
        prompt = body["messages"][0]["content"]
        if body.get("prompt_logprobs") is not None and self.echo:
            whole = "<user>" + prompt + "<model>" + body["messages"][-1]["content"]
            entries: list[Any] = [None]
            entries += [{"7": {"logprob": self.logprob(), "decoded_token": c}} for c in whole[1:]]
            choice: dict[str, Any] = {"message": {"content": "."}}
            return _json({"choices": [choice], "prompt_logprobs": entries})
        if body.get("logprobs") and not self.logprobs:
            return JSONResponse({"error": "logprobs"}, 400)
        text = self._answer(prompt)
        choice = {"message": {"content": text}, "finish_reason": "stop"}
        if body.get("logprobs"):
            rows = [{"token": c, "logprob": self.logprob()} for c in text]
            choice["logprobs"] = {"content": rows}
        return _json({"choices": [choice], "usage": _usage(prompt, text)})

    def _answer(self, prompt: str) -> str:
        task = self.tasks[prompt]
        return self.spoil(task, right(task))

    def _tokens(self, text: str) -> dict[str, Any]:
        return {"tokens": list(text), "token_logprobs": [self.logprob() for _ in text]}


def _usage(prompt: str, text: str) -> dict[str, int]:
    return {
        "prompt_tokens": len(prompt),
        "completion_tokens": len(text),
        "total_tokens": len(prompt) + len(text),
    }


def _json(value: Any) -> Response:
    """With NaN as Python writes it, as servers do that do not look."""
    return Response(json.dumps(value), media_type="application/json")
