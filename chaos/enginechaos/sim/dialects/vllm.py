"""vLLM 0.32: names and labels as in the recordings (tests/data), lies as measured.

`/health` asks nobody: it is 200 until the API server itself knows that the engine is dead
(entrypoints/serve/instrumentator/health.py). Gauges move with each step, so in a hang all of them
freeze.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from enginechaos.sim.dialects.base import EngineState, Titles
from enginechaos.sim.dialects.vllm_log import VllmCoreLog, VllmServerLog
from enginechaos.sim.dialects.vllm_page import VllmPage
from enginechaos.sim.settings import Settings


class Vllm:
    lingers = 0.4
    """The API server looks after its engine every 5 s at most (VLLM_WATCHDOG_TIME_S); measured 0.3
    to 5 s."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.version = settings.version or "0.32.0"
        self.titles = Titles(
            server=f"vllm serve {settings.model} --port {settings.port} (enginechaos.sim)",
            core="VLLM::EngineCore",
            ranks=[f"VLLM::Worker_TP{rank}" for rank in range(settings.tensor_parallel)],
        )
        self.started: Final = int(time.time())

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

        async def metrics(_: Request) -> Response:
            return Response(self.page.text(), media_type="text/plain; version=1.0.0; charset=utf-8")

        return [
            Route("/health", health),
            Route("/ping", health, methods=["GET", "POST"]),
            Route("/version", version),
            Route("/load", load),
            Route("/metrics", metrics),
        ]

    def server_log(self) -> VllmServerLog:
        return VllmServerLog(self.settings, self.version, self.page)

    def core_log(self) -> VllmCoreLog:
        return VllmCoreLog(self.settings, self.version)
