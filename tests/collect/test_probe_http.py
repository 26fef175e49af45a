"""One probe: what is sent to each kind of server, and what each answer counts as."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from tests.collect.servers import never, serving, target_at

from enginewatch.collect.probe_dialect import Result
from enginewatch.collect.probe_http import ProbeClient
from enginewatch.collect.probe_schedule import Ended
from enginewatch.config import ProbeConfig

MODELS = {"object": "list", "data": [{"id": "llama"}, {"id": "other"}]}
INDEX = [{"name": "preprocessing"}, {"name": "ensemble", "state": "READY"}]
Answer = httpx.Response | Exception


class Server:
    """Answers by path, and remembers what it was asked."""

    def __init__(self, **answers: Answer):
        self.answers = {"/health": httpx.Response(200), **answers}
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[httpx.Headers] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, str(request.url), body))
        self.headers.append(request.headers)
        found = self.answers.get(request.url.path, httpx.Response(404))
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found.status_code, content=found.content)

    @property
    def sent(self) -> list[tuple[str, str, Any]]:
        """What was asked, health aside."""
        return [one for one in self.asked if "health" not in one[1]]


def openai(status: int = 200, *, path: str = "/v1/completions") -> dict[str, Answer]:
    return {"/v1/models": httpx.Response(200, json=MODELS), path: httpx.Response(status, json={})}


def probed(
    server: Server, job: str = "", times: int = 1, **given: Any
) -> tuple[Ended, ProbeClient]:
    target = target_at("gpu-1:8000", f", {job}" if job else "")
    client = ProbeClient(
        target, ProbeConfig.model_validate(given), transport=httpx.MockTransport(server)
    )

    async def run() -> Ended:
        for _ in range(times):
            ended = await client.probe()
        return ended

    return asyncio.run(run()), client


def test_a_completion_of_one_token_from_the_first_model() -> None:
    server = Server(**openai())
    ended, client = probed(server, times=2)
    assert (ended.result, ended.status, ended.health) == (Result.ANSWERED, 200, 200)
    assert client.problem == ""
    models, *probes = server.sent
    assert models == ("GET", "http://gpu-1:8000/v1/models", None)
    body = {"model": "llama", "prompt": "Hi", "max_tokens": 1, "temperature": 0}
    assert probes == [("POST", "http://gpu-1:8000/v1/completions", body)] * 2


def test_settings_decide_what_is_sent() -> None:
    server = Server(**{"/api/go": httpx.Response(200)})
    given = {"model": "m", "prompt": "1", "path": "/api/go", "port": 81, "body": {"top_k": 1}}
    assert probed(server, **given)[0].result is Result.ANSWERED
    body = {"model": "m", "prompt": "1", "max_tokens": 1, "temperature": 0, "top_k": 1}
    assert server.sent == [("POST", "http://gpu-1:81/api/go", body)]


def test_credentials_are_the_jobs() -> None:
    server = Server(**openai())
    probed(server, "authorization: {credentials: s3cret}")
    assert {headers["authorization"] for headers in server.headers} == {"Bearer s3cret"}


def test_a_server_of_chats_alone_is_sent_chats() -> None:
    server = Server(**openai(path="/v1/chat/completions"))
    assert probed(server, times=2)[0].result is Result.ANSWERED
    paths = [url.removeprefix("http://gpu-1:8000/v1") for _, url, _ in server.sent]
    assert paths == ["/models", "/completions", "/chat/completions", "/chat/completions"]


def test_triton_is_asked_at_its_own_port_for_an_ensemble() -> None:
    server = Server(
        **{
            "/v2/repository/index": httpx.Response(200, json=INDEX),
            "/v2/models/ensemble/generate": httpx.Response(200, json={}),
            "/v2/health/live": httpx.Response(200),
        }
    )
    ended, _ = probed(server, "runtime: triton")
    assert (ended.result, ended.health) == (Result.ANSWERED, 200)
    body = {"text_input": "Hi", "max_tokens": 1}
    assert server.sent[1] == ("POST", "http://gpu-1:8000/v2/models/ensemble/generate", body)


def test_sglangs_health_page_is_left_alone() -> None:
    server = Server(**openai())
    ended, _ = probed(server, "runtime: sglang")
    assert ended.health is None
    assert server.sent == server.asked


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (401, Result.REFUSED),
        (400, Result.REFUSED),
        (429, Result.BUSY),
        (500, Result.FAILING),
        (503, Result.STARTING),
        (404, Result.UNSUPPORTED),
    ],
)
def test_what_a_status_counts_as(status: int, result: Result) -> None:
    ended, client = probed(Server(**openai(status)))
    assert (ended.result, ended.status) == (result, status)
    assert str(status) in client.problem


@pytest.mark.parametrize(
    ("models", "result"),
    [
        (httpx.Response(404), Result.UNSUPPORTED),
        (httpx.Response(200, text="<html>"), Result.UNSUPPORTED),
        (httpx.Response(200, json={"data": []}), Result.UNSUPPORTED),
        (httpx.Response(200, json={"data": [None, {"id": 5}]}), Result.UNSUPPORTED),
        (httpx.Response(200, json=[1]), Result.UNSUPPORTED),
        (httpx.Response(403), Result.REFUSED),
        (httpx.Response(503), Result.STARTING),
        (httpx.ConnectError("connection refused"), Result.UNREACHABLE),
        (httpx.RemoteProtocolError("no HTTP"), Result.FAILING),
        (httpx.Response(200, content=b"[" * 300_000), Result.REFUSED),
    ],
)
def test_a_server_that_lists_no_models(models: Answer, result: Result) -> None:
    server = Server(**{"/v1/models": models})
    assert probed(server)[0].result is result
    # Where somebody asked for the probe, they are told that it can't be.
    asked_for = Result.REFUSED if result is Result.UNSUPPORTED else result
    assert probed(server, enabled=True)[0].result is asked_for


def test_a_model_that_is_not_served_is_a_mistake_of_the_configuration() -> None:
    assert probed(Server(**openai(404)), model="lama")[0].result is Result.REFUSED


def test_a_model_that_was_found_is_looked_for_again_when_it_is_refused() -> None:
    server = Server(**openai(400))
    probed(server, times=2)
    assert [url for _, url, _ in server.sent].count("http://gpu-1:8000/v1/models") == 2


def test_a_server_that_hangs_is_let_go_at_the_deadline() -> None:
    async def run() -> tuple[Ended, int]:
        async with serving(never) as address:
            settings = ProbeConfig(model="m", timeout=50)
            ended = await ProbeClient(target_at(address), settings).probe()
            open_tasks = len(asyncio.all_tasks())
        return ended, open_tasks

    ended, open_tasks = asyncio.run(run())
    assert (ended.result, ended.status, ended.health) == (Result.DEADLINE, 0, 0)
    assert ended.duration < 5
    assert open_tasks <= 4


def test_nobody_there() -> None:
    async def run() -> Ended:
        async with serving(never) as address:
            pass
        return await ProbeClient(target_at(address), ProbeConfig(model="m")).probe()

    assert asyncio.run(run()).result is Result.UNREACHABLE


def test_a_secret_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    ended, client = probed(Server(**openai()), "authorization: {credentials_env: NOT_SET}")
    assert ended.result is Result.REFUSED
    assert "NOT_SET" in client.problem
