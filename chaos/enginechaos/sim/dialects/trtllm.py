"""trtllm-serve of TensorRT-LLM 1.2, PyTorch backend.

Its Prometheus page is refreshed only when a request completes, and its JSON `/metrics` gives each
entry once (tensorrt_llm/serve/openai_server.py). A rank that is killed is not missed by the others
(PR #16338), and after the executor's death the server answers 503 for ever (#18663).
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from enginechaos.sim.dialects.base import EngineState, Iteration, QuietPage, Titles
from enginechaos.sim.dialects.families import Families, text_page
from enginechaos.sim.dialects.plain_log import TENSORRT, Lines, PlainLog
from enginechaos.sim.engine import StepReport
from enginechaos.sim.life import Life
from enginechaos.sim.settings import Settings

_KEPT: Final = 1000
"""Iterations that wait to be read (`iter_stats_max_iterations`)."""
_SECONDS: Final = (0.1, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 1.7, 2.0, 2.5, 3.0, 5.0, 10.0, 30.0, 60.0)
_FIRST: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5)
_GAP: Final = (0.1, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 1.7, 2.0, 2.5, 3.0, 5.0, 10.0)
_LINES: Final = Lines(
    started="[MemUsageChange] Allocated paged KV cache for max tokens ({tokens}), {blocks} blocks.",
    server_failed="RuntimeError: Executor worker returned error",
    no_memory_to_start="Failed to initialize executor on rank 0: {message}",
    hung="Hang detected after {seconds} seconds.\n"
    "Hang detected on rank 0 in PyExecutor.\n"
    "HangDetector: propagating hard-kill to all ranks via MPI_Abort.",
    rank_died="Executor loop crashed on this rank; hard-killing all {ranks} ranks in 9.99s",
    out_of_memory="Error in event loop: {message}\n"
    "Executor loop crashed on this rank; hard-killing all ranks in 9.99s",
    serving="Starting trtllm-serve on port {port}",
    engine_died="LLM is unavailable. Please check the server logs for more details.",
)


class _Page(QuietPage):
    """Steps are taken in at once and shown at the next completion."""

    def __init__(self, settings: Settings):
        make = Families("trtllm_", {"model_name": settings.model, "engine_type": "pytorch"})
        self.registry: Final = make.registry
        self.iterations: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._settings: Final = settings
        self._last: StepReport | None = None
        self._blocks = 0
        self._count = 0
        self._prompts = make.counter("prompt_tokens", "Prompt tokens.")
        self._generated = make.counter("generation_tokens", "Generated tokens.")
        self._success = make.counters(
            "request_success",
            "Finished requests.",
            "finished_reason",
            ("stop", "length", "cancelled"),
        )
        self._errors = make.counters(
            "request_error", "Failed requests.", "http_code", ("400", "500")
        )
        self._completed = make.counter("num_requests_completed", "Completed requests.")
        self._running = make.gauge("num_requests_running", "Active requests.")
        self._waiting = make.gauge("num_requests_waiting", "Queued requests.")
        self._usage = make.gauge("kv_cache_utilization", "Used share of the KV cache.")
        self._free = make.gauge("kv_cache_free_blocks", "Free blocks.")
        self._whole = make.histogram("e2e_request_latency_seconds", "Whole request.", _SECONDS)
        self._first = make.histogram("time_to_first_token_seconds", "First token.", _FIRST)
        self._gap = make.histogram("time_per_output_token_seconds", "Tokens after it.", _GAP)
        self._queue = make.histogram("request_queue_time_seconds", "In the queue.", _SECONDS)

    def cache_config(self, blocks: int) -> None:
        self._blocks = blocks

    def step(self, report: StepReport, iteration: Iteration) -> None:  # noqa: ARG002
        self._last = report
        self._count += 1
        used = round(report.kv_usage * self._blocks)
        self.iterations.append(
            {
                "iter": self._count,
                "numActiveRequests": report.running,
                "numQueuedRequests": report.waiting,
                "kvCacheStats": {
                    "maxNumBlocks": self._blocks,
                    "usedNumBlocks": used,
                    "freeNumBlocks": self._blocks - used,
                    "tokensPerBlock": self._settings.block_size,
                },
                "inflightBatchingStats": {
                    "numCtxTokens": report.prefill_tokens,
                    "numScheduledRequests": report.running,
                },
            }
        )

    def finished(self, life: Life, reason: str) -> None:
        if reason == "error":
            self._errors["500"].inc()
            return
        self._success["cancelled" if reason == "abort" else reason].inc()
        self._completed.inc()
        if reason != "abort":
            self._prompts.inc(life.prompt_tokens)
            self._generated.inc(life.generated)
            self._whole.observe(life.whole)
            self._first.observe(life.first - life.arrived)
            self._queue.observe(life.queued)
            if life.generated > 1:
                self._gap.observe(life.per_token)
        if self._last is not None:
            self._running.set(self._last.running)
            self._waiting.set(self._last.waiting)
            self._usage.set(self._last.kv_usage)
            self._free.set(round((1 - self._last.kv_usage) * self._blocks))


class Trtllm:
    lingers = -1.0
    hears_of_dead_ranks = False
    metrics_port: int | None = None

    def __init__(self, settings: Settings):
        self.settings = settings
        self.version = settings.version or "1.2.1"
        self.hang_timeout: float | None = settings.execute_model_timeout
        self.titles = Titles(
            server=f"trtllm-serve serve {settings.model} --port {settings.port} (enginechaos.sim)",
            core="trtllm-executor (enginechaos.sim)",
            ranks=[
                f"python -m mpi4py.futures.server --rank {rank}"
                for rank in range(settings.tensor_parallel)
            ],
        )

    @cached_property
    def page(self) -> _Page:
        return _Page(self.settings)

    def routes(self, engine: EngineState) -> list[BaseRoute]:
        async def health(_: Request) -> Response:
            if engine.dead:
                return PlainTextResponse(_LINES.engine_died, status_code=503)
            return Response()

        async def generate(_: Request) -> Response:
            if await engine.generate_one():
                return PlainTextResponse("Generation health check OK")
            return PlainTextResponse("Generation health check failed", status_code=500)

        async def version(_: Request) -> Response:
            return JSONResponse({"version": self.version})

        async def iterations(_: Request) -> Response:
            taken = list(self.page.iterations)
            self.page.iterations.clear()  # "removed once retrieved"
            return JSONResponse(taken)

        async def prometheus(_: Request) -> Response:
            return text_page(self.page.registry)

        return [
            Route("/health", health),
            Route("/health_generate", generate),
            Route("/version", version),
            Route("/metrics", iterations),
            Route("/prometheus/metrics", prometheus),
        ]

    def server_log(self) -> PlainLog:
        return PlainLog(self.settings, _LINES, *TENSORRT)

    def core_log(self) -> PlainLog:
        return PlainLog(self.settings, _LINES, *TENSORRT)
