"""The live contract: ready, answering, and exporting what the hazards need."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.support.server import serve

from enginewatch.alerting.coverage import Blind, Cause
from enginewatch.alerting.rules import RuleFile, load_rule_files
from enginewatch.cli import main
from enginewatch.collect.endpoint import look
from enginewatch.config import config_for_urls
from enginewatch.model import Labels, Target
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.judge import shipped_preflight
from enginewatch.preflight.outcome import Report
from enginewatch.preflight.readers.endpoint import Endpoint
from enginewatch.preflight.run import preflight
from enginewatch.recording import ScrapeEvent, read_recording
from enginewatch.rulepack import rule_files

DATA = Path(__file__).parents[1] / "data"
URL = "http://gpu-1:8000"
MODELS = {"object": "list", "data": [{"id": "llama"}]}


@cache
def page() -> bytes:
    """A page of a real vLLM 0.32 that has served requests."""
    found = b""
    for event in read_recording(DATA / "vllm-mixed-load.prom.xz"):
        if isinstance(event, ScrapeEvent) and event.body:
            found = event.body
            if b"vllm:inter_token_latency_seconds_count" in found:
                break
    return found


@cache
def rules() -> tuple[RuleFile, ...]:
    return load_rule_files(rule_files())


class Server:
    """A vLLM; `answers` replace what it says, by path. A callable may raise, or never end."""

    def __init__(self, **answers: httpx.Response | Callable[[], httpx.Response]):
        self.answers = {
            "/health": httpx.Response(200),
            "/v1/models": httpx.Response(200, json=MODELS),
            "/v1/completions": httpx.Response(200, json={"choices": [{"text": "a"}]}),
            "/metrics": httpx.Response(200, content=page()),
            **answers,
        }

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        found = self.answers.get(request.url.path, httpx.Response(404))
        if callable(found):
            found = found()
        if found.status_code == 299:  # hangs
            await asyncio.Event().wait()
        return httpx.Response(
            found.status_code,
            content=found.content,
            headers={"Content-Type": "text/plain; version=0.0.4"},
        )


HANGS = httpx.Response(299)


def report(server: Server) -> tuple[Endpoint, Report]:
    async def run() -> Endpoint:
        transport = httpx.MockTransport(server)
        return await look(config_for_urls([URL]), URL, rules(), deadline=50, transport=transport)

    endpoint = asyncio.run(run())
    facts = Facts(endpoints=(endpoint,))
    return endpoint, preflight(facts, shipped_preflight(), date(2026, 1, 1), wanted=["live"])


def codes(found: Report) -> set[str]:
    return {finding.code for finding in found.findings if finding.severity != "info"}


def test_a_real_page_of_vllm_keeps_the_contract() -> None:
    endpoint, found = report(Server())
    assert (endpoint.result, endpoint.model, endpoint.runtime) == ("answered", "llama", "vllm")
    assert not codes(found)
    assert found.outcome.word == "pass"
    assert {rule.code for rule in found.passed} >= {"EW-LIVE-001", "EW-LIVE-006"}


def refuse() -> httpx.Response:
    raise httpx.ConnectError("connection refused")


@pytest.mark.parametrize(
    ("answers", "expected", "outcome"),
    [
        ({"/health": httpx.Response(503)}, {"EW-LIVE-001"}, "fail"),
        ({"/v1/completions": HANGS}, {"EW-LIVE-002"}, "fail"),
        ({"/v1/completions": httpx.Response(503)}, {"EW-LIVE-003"}, "fail"),
        ({"/v1/completions": httpx.Response(500)}, {"EW-LIVE-003"}, "fail"),
        ({"/v1/completions": httpx.Response(429)}, {"EW-LIVE-004"}, "undetermined"),
        ({"/v1/models": httpx.Response(401)}, {"EW-LIVE-004"}, "undetermined"),
        ({"/metrics": httpx.Response(404)}, {"EW-LIVE-006"}, "fail"),
        (
            dict.fromkeys(("/health", "/v1/models", "/v1/completions", "/metrics"), refuse),
            {"EW-LIVE-001", "EW-LIVE-003", "EW-LIVE-006"},
            "fail",
        ),
    ],
)
def test_what_a_server_does_wrong(
    answers: dict[str, httpx.Response], expected: set[str], outcome: str
) -> None:
    _, found = report(Server(**answers))
    assert codes(found) == expected
    assert found.outcome.word == outcome


def test_a_renamed_metric_blinds_a_hazard_and_is_named() -> None:
    renamed = re.sub(rb"vllm:inter_token_latency_seconds", b"vllm:gap_seconds", page())
    _, found = report(Server(**{"/metrics": httpx.Response(200, content=renamed)}))
    blind = [each for each in found.findings if each.code == "EW-LIVE-007"]
    assert "prefill_starvation" in {each.fields["hazard"] for each in blind}
    assert any("vllm:inter_token_latency_seconds" in each.summary for each in blind)
    assert found.outcome.word == "fail"


def test_a_page_of_something_else_shows_no_hazard() -> None:
    other = httpx.Response(200, content=b"http_requests 1\n")
    _, found = report(Server(**{"/metrics": other}))
    assert "EW-LIVE-007" in codes(found)


def test_a_slow_answer_and_what_no_engine_of_its_kind_shows_are_told() -> None:
    endpoint, _ = report(Server())
    blind = Blind(
        "preemption_storm",
        Target(URL, Labels()),
        "nim",
        "engine:preemptions:rate1m",
        Cause.UNSUPPORTED,
        ("EnginePreempts",),
    )
    slow = replace(endpoint, seconds=12.0, blind=(blind,))
    found = preflight(Facts(endpoints=(slow,)), shipped_preflight(), date(2026, 1, 1))
    assert {finding.code for finding in found.findings} == {"EW-LIVE-005", "EW-LIVE-008"}
    assert found.outcome.word == "pass"


@pytest.mark.integration
def test_the_command_looks_at_a_real_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Server()
    token = tmp_path / "token"
    token.write_text("s3cret\n")

    async def answer(request: Request) -> Response:
        if request.headers.get("authorization") != "Bearer s3cret":
            return Response(status_code=401)
        found = fake.answers.get(request.url.path, httpx.Response(404))
        assert isinstance(found, httpx.Response)
        kind = "text/plain; version=0.0.4"
        return Response(found.content, status_code=found.status_code, media_type=kind)

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    with serve(app) as url:
        arguments = ["--url", url, "--gpus", "H200", "--require", "live", "--format", "json"]
        credentials = ["--token-file", str(token)]
        monkeypatch.setattr("sys.argv", ["enginewatch", "preflight", *arguments, *credentials])
        with pytest.raises(SystemExit) as ended:
            main()
    out = capsys.readouterr().out
    assert "s3cret" not in out
    told = json.loads(out)
    assert (ended.value.code, told["outcome"]) == (0, "pass")
    assert told["inputs"] == ["--gpus H200", f"--url {url}"]
    assert {each["check"] for each in told["passed"]} >= {"live"}
