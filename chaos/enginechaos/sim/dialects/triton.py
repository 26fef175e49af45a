"""Triton with the TensorRT-LLM backend (26.0x): KServe paths, metrics on a port of their own.

Readiness says that models are loaded and asks them nothing. A hang has no timeout: nothing but
`nv_inference_pending_request_count`, the frontend's own, moves while it lasts.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from enginechaos.sim.dialects.base import EngineState, Iteration, QuietPage, Titles
from enginechaos.sim.dialects.families import Families, text_page
from enginechaos.sim.dialects.plain_log import Lines, PlainLog
from enginechaos.sim.engine import StepReport
from enginechaos.sim.life import Life
from enginechaos.sim.settings import Settings

_ENTRY: Final = "ensemble"
_MODELS: Final = (_ENTRY, "preprocessing", "tensorrt_llm", "postprocessing")
_MILLISECONDS: Final = (100, 500, 2000, 5000)
_LENGTHS: Final = (50, 100, 500, 1000)
_LINES: Final = Lines(
    started="[TensorRT-LLM][INFO] Max tokens in paged KV cache: {tokens}.",
    server_failed="error: creating server: Internal - failed to load all models",
    no_memory_to_start="ERROR: Failed to create instance: unexpected error when creating "
    "modelInstanceState: {message}",
    rank_died="MPI_ABORT was invoked on rank {rank} in communicator MPI_COMM_WORLD "
    "with errorcode {code}.",
    out_of_memory="[TensorRT-LLM][ERROR] Encountered an error in forwardAsync function: {message}",
    serving="Started HTTPService at 0.0.0.0:{port}",
)


class _Page(QuietPage):
    def __init__(self, settings: Settings):
        make = Families("nv_", {"model": _ENTRY, "version": "1"})
        engine = Families(
            "nv_trt_llm_", {"model": "tensorrt_llm", "version": "1"}, registry=make.registry
        )
        self.registry: Final = make.registry
        self.last_inference = 0
        self.served = 0
        self._blocks = 0
        self._steps = 0
        # Triton's counters have no suffix, so they are made as gauges.
        self._success = make.gauge("inference_request_success", "Successful requests.")
        self._failure = make.gauges(
            "inference_request_failure", "Failed requests.", "reason",
            ("REJECTED", "CANCELED", "BACKEND", "OTHER"),
        )  # fmt: skip
        self._inferences = make.gauge("inference_count", "Inferences.")
        self._pending = make.gauge("inference_pending_request_count", "Requests that wait.")
        self._duration = make.gauge("inference_request_duration_us", "Cumulative duration.")
        self._first = make.histogram(
            "inference_first_response_histogram_ms", "First response.", _MILLISECONDS
        )
        token = Families(
            "nv_llm_", {"model": "tensorrt_llm", "version": "1"}, registry=make.registry
        )
        self._input = token.histogram("input_token_len", "Prompt tokens.", _LENGTHS)
        self._output = token.histogram("output_token_len", "Generated tokens.", _LENGTHS)
        self._requests = engine.gauges(
            "request_metrics", "TRT LLM requests.", "request_type",
            ("active", "max", "scheduled", "context", "waiting"),
        )  # fmt: skip
        self._cache = engine.gauges(
            "kv_cache_block_metrics", "TRT LLM KV cache.", "kv_cache_block_type",
            ("max", "free", "used", "tokens_per", "reused", "fraction"),
        )  # fmt: skip
        self._batcher = engine.gauges(
            "inflight_batcher_metrics", "TRT LLM batcher.", "inflight_batcher_specific_metric",
            ("total_context_tokens", "generation_requests", "micro_batch_id", "paused_requests"),
        )  # fmt: skip
        self._general = engine.gauges(
            "general_metrics",
            "General TRT LLM.",
            "general_type",
            ("timestamp", "iteration_counter"),
        )
        self._requests["max"].set(settings.max_num_seqs)
        self._cache["tokens_per"].set(settings.block_size)

    def cache_config(self, blocks: int) -> None:
        self._blocks = blocks
        self._cache["max"].set(blocks)
        self._cache["free"].set(blocks)

    def arrived(self) -> None:
        self._pending.inc()

    def step(self, report: StepReport, iteration: Iteration) -> None:
        self._steps += 1
        for life in iteration.prompts:
            self._first.observe(1000 * (life.first - life.arrived))
        used = round(report.kv_usage * self._blocks)
        self._requests["active"].set(report.running + report.waiting)
        self._requests["scheduled"].set(report.running)
        self._requests["waiting"].set(report.waiting)
        self._cache["used"].set(used)
        self._cache["free"].set(self._blocks - used)
        self._cache["fraction"].set(report.kv_usage)
        self._batcher["total_context_tokens"].set(report.prefill_tokens)
        self._batcher["generation_requests"].set(report.running)
        self._general["iteration_counter"].set(self._steps)
        self._general["timestamp"].set(time.time())

    def finished(self, life: Life, reason: str) -> None:
        self._pending.dec()
        if reason in {"abort", "error"}:
            self._failure["CANCELED" if reason == "abort" else "BACKEND"].inc()
            return
        self.last_inference = int(1000 * time.time())
        self.served += 1
        self._success.inc()
        self._inferences.inc()
        self._duration.inc(1e6 * life.whole)
        self._input.observe(life.prompt_tokens)
        self._output.observe(life.generated)


class Triton:
    lingers = 0.5
    """`mpirun` ends the job with its first rank that fails."""
    hears_of_dead_ranks = True
    hang_timeout: float | None = None

    def __init__(self, settings: Settings):
        self.settings = settings
        self.version = settings.version or "2.62.0"
        self.metrics_port: int | None = settings.metrics_port or settings.port + 2
        self.titles = Titles(
            server=f"tritonserver --model-repository=/models --http-port={settings.port} "
            f"--metrics-port={self.metrics_port} (enginechaos.sim)",
            core="tensorrt_llm-backend (enginechaos.sim)",
            ranks=[f"trtllmExecutorWorker {rank}" for rank in range(settings.tensor_parallel)],
        )

    @cached_property
    def page(self) -> _Page:
        return _Page(self.settings)

    def routes(self, engine: EngineState) -> list[BaseRoute]:
        return [
            Route("/v2/health/live", _always),
            Route("/v2/health/ready", _ready(engine)),
            *(Route(f"/v2/models/{name}/ready", _ready(engine)) for name in _MODELS),
            Route(f"/v2/models/{_ENTRY}/stats", self._stats),
            Route("/v2/repository/index", _index, methods=["POST"]),
            Route(f"/v2/models/{_ENTRY}/generate", self._generate(engine), methods=["POST"]),
            Route("/metrics", self._metrics),
        ]

    async def _metrics(self, _: Request) -> Response:
        return text_page(self.page.registry)

    async def _stats(self, _: Request) -> Response:
        stats = {
            "name": _ENTRY,
            "version": "1",
            "last_inference": self.page.last_inference,
            "inference_count": self.page.served,
            "execution_count": self.page.served,
        }
        return JSONResponse({"model_stats": [stats]})

    def _generate(self, engine: EngineState) -> Callable[[Request], Awaitable[Response]]:
        async def generate(http: Request) -> Response:
            body: dict[str, Any] = await http.json()
            name = f"triton-{uuid.uuid4().hex[:16]}"
            limit = int(body.get("max_tokens") or 16)
            text = await engine.say(name, str(body["text_input"]), limit)
            if text is None:
                return JSONResponse({"error": "inference request failed"}, status_code=500)
            return JSONResponse({"model_name": _ENTRY, "model_version": "1", "text_output": text})

        return generate

    def server_log(self) -> PlainLog:
        return PlainLog(self.settings, _LINES, "I{time} {text}", "%m%d %H:%M:%S.000000")

    def core_log(self) -> PlainLog:
        return PlainLog(self.settings, _LINES, "{text}", "")


async def _always(_: Request) -> Response:
    return Response()


def _ready(engine: EngineState) -> Callable[[Request], Awaitable[Response]]:
    async def ready(_: Request) -> Response:
        return Response(status_code=400 if engine.dead else 200)

    return ready


async def _index(_: Request) -> Response:
    return JSONResponse([{"name": name, "version": "1", "state": "READY"} for name in _MODELS])
