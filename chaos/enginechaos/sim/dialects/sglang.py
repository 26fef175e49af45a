"""SGLang 0.5, with `--enable-metrics`.

`/health` generates a token and gives it 20 s, so it is slow to say no but does. Gauges are set
every 40 decode steps and at each prefill (managers/scheduler_metrics_mixin.py). The scheduler's own
watchdog ends the server after its timeout; a rank killed from outside is not missed (PR #21486).
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from enginechaos.sim.dialects.base import EngineState, Iteration, QuietPage, Titles
from enginechaos.sim.dialects.families import Families, text_page
from enginechaos.sim.dialects.plain_log import Lines, PlainLog
from enginechaos.sim.engine import StepReport
from enginechaos.sim.life import Life
from enginechaos.sim.settings import Settings

_HEALTH_TIMEOUT: Final = 20.0
"""SGLANG_HEALTH_CHECK_TIMEOUT."""
_LOG_EVERY: Final = 40
"""Decode steps between refreshes (decode_log_interval)."""
_FIRST: Final = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_GAP: Final = (0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.08, 0.1,
               0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8)  # fmt: skip
_LINES: Final = Lines(
    started="max_total_num_tokens={tokens}, KV Cache is allocated.",
    server_failed="Received sigquit from a child process. It usually means the child failed.",
    no_memory_to_start="Scheduler hit an exception: Traceback (most recent call last):\n{message}",
    hung="Scheduler watchdog timeout (self.watchdog_timeout={seconds}, self.soft=False)",
    out_of_memory="Scheduler hit an exception: Traceback (most recent call last):\n"
    "torch.OutOfMemoryError: {message}",
    serving="The server is fired up and ready to roll!",
    engine_died="Received sigquit from a child process. It usually means the child failed.",
)


class _Page(QuietPage):
    def __init__(self, settings: Settings):
        labels = {
            "model_name": settings.model, "engine_type": "unified", "tp_rank": "0",
            "pp_rank": "0", "moe_ep_rank": "0",
        }  # fmt: skip
        make = Families("sglang:", labels)
        self.registry: Final = make.registry
        self._tokens = 0
        self._steps = 0
        self._since = 0.0
        self._made = 0
        self._running = make.gauge("num_running_reqs", "Running requests.")
        self._queue = make.gauge("num_queue_reqs", "Requests in the queue.")
        self._usage = make.gauge("token_usage", "Used share of the KV cache.")
        self._used = make.gauge("num_used_tokens", "Tokens in the KV cache.")
        self._most = make.gauge("max_total_num_tokens", "Tokens that the KV cache can hold.")
        self._speed = make.gauge("gen_throughput", "Generated tokens a second.")
        self._retracted = make.counter("num_retracted_requests", "Requests retracted.")
        self._realtime = make.counters(
            "realtime_tokens", "Tokens as they are computed.", "mode",
            ("prefill_compute", "prefill_cache", "decode"),
        )  # fmt: skip
        served = Families("sglang:", {"model_name": settings.model}, registry=make.registry)
        self._prompts = served.counter("prompt_tokens", "Prompt tokens.")
        self._generated = served.counter("generation_tokens", "Generated tokens.")
        self._requests = served.counter("num_requests", "Requests.")
        self._first = served.histogram("time_to_first_token_seconds", "First token.", _FIRST)
        self._gap = served.histogram("inter_token_latency_seconds", "Between tokens.", _GAP)
        self._whole = served.histogram("e2e_request_latency_seconds", "Whole request.", _FIRST)

    def cache_config(self, blocks: int) -> None:
        self._tokens = blocks
        self._most.set(blocks)

    def preempted(self, times: int) -> None:
        self._retracted.inc(times)

    def step(self, report: StepReport, iteration: Iteration) -> None:
        self._steps += 1
        self._made += iteration.generated
        self._realtime["prefill_compute"].inc(report.prefill_tokens)
        self._realtime["prefill_cache"].inc(report.prefix_hits)
        self._realtime["decode"].inc(report.decode_tokens)
        self._generated.inc(iteration.generated)
        for life in iteration.prompts:
            self._prompts.inc(life.prompt_tokens)
            self._first.observe(life.first - life.arrived)
        for gap in iteration.gaps:
            self._gap.observe(gap)
        if report.prefill_tokens or not report.running or self._steps % _LOG_EVERY == 0:
            self._refresh(report, iteration.now)

    def finished(self, life: Life, reason: str) -> None:
        self._requests.inc()
        if reason in {"stop", "length"}:
            self._whole.observe(life.whole)

    def _refresh(self, report: StepReport, now: float) -> None:
        self._speed.set(self._made / max(now - self._since, 1e-3) if report.running else 0)
        self._since, self._made = now, 0
        self._running.set(report.running)
        self._queue.set(report.waiting)
        self._usage.set(report.kv_usage)
        self._used.set(round(report.kv_usage * self._tokens))


class Sglang:
    lingers = 5.0
    """Seconds from the watchdog's SIGQUIT (utils/watchdog.py)."""
    hears_of_dead_ranks = False
    metrics_port: int | None = None

    def __init__(self, settings: Settings):
        self.settings = settings
        self.version = settings.version or "0.5.6"
        self.hang_timeout: float | None = settings.execute_model_timeout
        several = settings.tensor_parallel > 1
        self.titles = Titles(
            server=f"sglang serve --model {settings.model} --port {settings.port} "
            "(enginechaos.sim)",
            core="sglang::data_parallel_controller" if several else "sglang::scheduler",
            ranks=[f"sglang::scheduler_TP{rank}" for rank in range(settings.tensor_parallel)],
        )

    @cached_property
    def page(self) -> _Page:
        return _Page(self.settings)

    def routes(self, engine: EngineState) -> list[BaseRoute]:
        async def health(_: Request) -> Response:
            try:
                async with asyncio.timeout(_HEALTH_TIMEOUT):
                    answered = await engine.generate_one()
            except TimeoutError:
                answered = False
            return Response(status_code=200 if answered else 503)

        async def model(_: Request) -> Response:
            return JSONResponse({"model_path": self.settings.model, "is_generation": True})

        async def server(_: Request) -> Response:
            return JSONResponse({"version": self.version, "tp_size": self.settings.tensor_parallel})

        async def metrics(_: Request) -> Response:
            return text_page(self.page.registry)

        return [
            Route("/health", health),
            Route("/health_generate", health),
            *(Route(path, model) for path in ("/model_info", "/get_model_info")),
            *(Route(path, server) for path in ("/server_info", "/get_server_info")),
            Route("/metrics", metrics),
        ]

    def server_log(self) -> PlainLog:
        return PlainLog(self.settings, _LINES, "[{time}] {text}", "%Y-%m-%d %H:%M:%S")

    def core_log(self) -> PlainLog:
        return PlainLog(self.settings, _LINES, "[{time} TP0] {text}", "%Y-%m-%d %H:%M:%S")
