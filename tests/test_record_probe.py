"""A recording with the probe beside the scrape: its answers are replayed as they were given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from tests.support.samples import series_at
from tests.support.server import serve

from enginewatch.alerting.rules import load_rule_files
from enginewatch.recording import SamplesEvent, ScrapeEvent, read_recording
from enginewatch.replay import Replay
from enginewatch.rulepack import rule_files

pytestmark = pytest.mark.integration

PAGE = (
    'vllm:num_requests_running{model_name="m",engine="0"} 0\n'
    'vllm:generation_tokens_total{model_name="m",engine="0"} 7\n'
)


async def metrics(_: Request) -> Response:
    return PlainTextResponse(PAGE)


async def models(_: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model"}]})


async def token(_: Request) -> Response:
    return JSONResponse({"choices": [{"text": "!", "finish_reason": "length"}]})


ENGINE = Starlette(
    routes=[
        Route("/metrics", metrics),
        Route("/v1/models", models),
        Route("/v1/completions", token, methods=["POST"]),
    ]
)


def test_answers_of_the_probe_are_recorded_and_replayed(tmp_path: Path) -> None:
    file = tmp_path / "engine.prom"
    with serve(ENGINE) as url:
        command = [sys.executable, "-m", "enginewatch", "record", url, "-o", str(file), "--probe"]
        options = ["--interval", "1s", "--duration", "6s", "--runtime", "vllm"]
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, check=False, timeout=120
        )
    assert done.returncode == 0, done.stderr
    events = list(read_recording(file))
    (target,) = {event.labels for event in events if isinstance(event, ScrapeEvent | SamplesEvent)}
    told = [event for event in events if isinstance(event, SamplesEvent)]
    assert {event.source for event in told} == {"probe"}
    assert b'enginewatch_probe_success{model="m"} 1\n' in told[-1].body
    replay = Replay(load_rule_files(rule_files()))
    list(replay.run(events))
    found = series_at(replay.judge.head, "enginewatch_probe_success", told[-1].at)
    assert [(own["instance"], own["model"], value) for own, value in found.items()] == [
        (target["instance"], "m", 1)
    ]
