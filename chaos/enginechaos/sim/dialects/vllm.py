"""vLLM 0.32: names and labels as in the recordings (tests/data), lies as measured.

`/health` asks nobody: it is 200 until the API server itself knows that the engine is dead
(entrypoints/serve/instrumentator/health.py). Gauges move with each step, so in a hang all of them
freeze.
"""

from __future__ import annotations

from functools import cached_property

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from enginechaos.sim.dialects.base import EngineState, Titles
from enginechaos.sim.dialects.vllm_log import VllmCoreLog, VllmServerLog
from enginechaos.sim.dialects.vllm_page import VllmPage
from enginechaos.sim.settings import Settings


class Vllm:
    number = "0.32.0"
    lingers = 0.4
    """It looks after its engine every 5 s at most (VLLM_WATCHDOG_TIME_S); measured: within 1 s."""
    hears_of_dead_ranks = True
    metrics_port: int | None = None

    def __init__(self, settings: Settings):
        self.settings = settings
        self.version = settings.version or self.number
        self.hang_timeout: float | None = settings.execute_model_timeout
        self.titles = Titles(
            server=f"vllm serve {settings.model} --port {settings.port} (enginechaos.sim)",
            core="VLLM::EngineCore",
            ranks=[f"VLLM::Worker_TP{rank}" for rank in range(settings.tensor_parallel)],
        )

    @cached_property
    def page(self) -> VllmPage:
        return VllmPage(self.settings)

    def routes(self, engine: EngineState) -> list[BaseRoute]:
        async def health(_: Request) -> Response:
            return Response(status_code=503 if engine.dead else 200)

        async def version(_: Request) -> Response:
            return JSONResponse({"version": self.version})

        async def load(_: Request) -> Response:
            return JSONResponse({"server_load": 0})  # constant unless load tracking is switched on

        return [
            Route("/health", health),
            Route("/ping", health, methods=["GET", "POST"]),
            Route("/version", version),
            Route("/load", load),
            Route("/metrics", self.metrics),
        ]

    async def metrics(self, _: Request) -> Response:
        return Response(self.page.text(), media_type="text/plain; version=1.0.0; charset=utf-8")

    def server_log(self) -> VllmServerLog:
        return VllmServerLog(self.settings, self.version, self.page)

    def core_log(self) -> VllmCoreLog:
        return VllmCoreLog(self.settings, self.version)
