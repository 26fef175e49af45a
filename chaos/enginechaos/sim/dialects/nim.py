"""NIM 1.x for language models: vLLM's old names without their prefix, under /v1.

`/v1/health/live` is answered by a proxy, and is 200 whatever becomes of the engine behind it
(NIM documentation, observability and health of 1.x).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from enginechaos.sim.dialects.base import EngineState
from enginechaos.sim.dialects.families import Families
from enginechaos.sim.dialects.vllm import Vllm
from enginechaos.sim.dialects.vllm_old import OLD_NAMES
from enginechaos.sim.dialects.vllm_page import VllmPage
from enginechaos.sim.life import Life

_NAMES: Final[dict[str, str | None]] = {
    **OLD_NAMES,
    "cache_config_info": None,
    "request_success": "request_finish",
}


class _NimPage(VllmPage):
    """Beside the ends of requests by reason, those that were served and those that failed."""

    def _counters(self) -> None:
        super()._counters()
        self._served = self._make.counter("request_success_total", "Requests served.")
        self._failed = self._make.counter("request_failure_total", "Requests that failed.")

    def finished(self, life: Life, reason: str) -> None:
        super().finished(life, reason)
        (self._failed if reason in {"error", "abort"} else self._served).inc()


class Nim(Vllm):
    number = "1.8.0"
    lingers = -1.0

    @cached_property
    def page(self) -> VllmPage:
        return _NimPage(self.settings, Families("", {"model_name": self.settings.model}, _NAMES))

    def routes(self, engine: EngineState) -> list[BaseRoute]:
        async def live(_: Request) -> Response:
            return _health("Service is live.", "live")

        async def ready(_: Request) -> Response:
            if engine.dead:
                return Response(status_code=503)
            return _health("Service is ready.", "ready")

        async def version(_: Request) -> Response:
            return JSONResponse({"release": self.version, "api": self.version})

        return [
            Route("/v1/health/live", live),
            Route("/v1/health/ready", ready),
            Route("/v1/version", version),
            Route("/v1/metadata", version),
            Route("/v1/metrics", self.metrics),
        ]


def _health(message: str, status: str) -> Response:
    return JSONResponse({"object": "health.response", "message": message, "status": status})
