"""A real daemon beside an engine whose answers go wrong while its metrics stay perfect."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.canary.engine import Engine, right
from tests.support.daemon import Hook, eventually, running, write_config
from tests.support.server import serve

from enginewatch.canary.baseline import Answer, Baseline, Known, write_baseline
from enginewatch.canary.task import Kind, Task

TASKS = [
    Task(f"{family}-{n}", family, f"{family} {n}: {n} * 37?", Kind.NUMBER, str(37 * n))
    for family in ("sums", "times")
    for n in range(50)
]
PAGE = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="small",engine="0"} 0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="small",engine="0"} 0
"""


@pytest.mark.integration
def test_answers_that_go_wrong_page_once_with_examples_and_resolve(tmp_path: Path) -> None:
    known = tuple(Known(task, (Answer(right(task), True),) * 2) for task in TASKS)
    lines = write_baseline(Baseline(known))
    (tmp_path / "baseline.jsonl").write_text("".join(f"{line}\n" for line in lines))
    engine, hook = Engine(TASKS), Hook()
    app = engine.app()

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(PAGE)

    app.routes.append(Route("/metrics", metrics))
    bad = {task.id for task in TASKS[::3]}
    with serve(app) as url, serve(hook.app()) as receiver:
        config = write_config(
            tmp_path / "enginewatch.yml",
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "scrape_configs": [
                    {
                        "job_name": "v",
                        "runtime": "vllm",
                        "deployment": "chat",
                        "static_configs": [{"targets": [url.removeprefix("http://")]}],
                    }
                ],
                "probe": {"enabled": False},
                "canary": {
                    "baseline": "baseline.jsonl",
                    "interval": "300ms",
                    "batch": 8,
                    "tokens_per_hour": 10_000_000,
                    "logprobs": "off",
                },
                "route": {"receiver": "hook", "group_wait": "0s", "group_interval": "1s"},
                "receivers": [{"name": "hook", "webhook_configs": [{"url": f"{receiver}/hook"}]}],
                "storage": {"path": "data"},
                "nvml": {"enabled": False},
                "processes": {"enabled": False},
                "web": {"listen": "127.0.0.1:0"},
            },
        )
        with running(config) as daemon:
            answers = 'enginewatch_canary_answers_total{family="overall"}'
            eventually(lambda: (daemon.value(answers) or 0) >= 30, "healthy answers")
            assert hook.told() == []
            engine.spoil = lambda task, answer: f"<b>{answer}1</b>" if task.id in bad else answer
            eventually(lambda: ("firing", "EngineAnswersWorse") in hook.told(), "a page")
            engine.spoil = lambda _, answer: answer
            eventually(lambda: ("resolved", "EngineAnswersWorse") in hook.told(), "a resolve")
            assert daemon.stop() == 0
    told = [each for each in hook.told() if each[1] != "Watchdog"]
    assert told == [("firing", "EngineAnswersWorse"), ("resolved", "EngineAnswersWorse")]
    (page,) = (
        alert
        for body in hook.received
        for alert in body["alerts"]
        if alert["status"] == "firing" and alert["labels"]["alertname"] == "EngineAnswersWorse"
    )
    assert page["labels"]["severity"] == "page"
    assert page["labels"]["model"] == "small"
    assert "baseline: " in page["annotations"]["evidence"]
    assert "1</b>" in page["annotations"]["evidence"]
