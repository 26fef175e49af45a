"""PromQL values as the JSON of Prometheus' HTTP API, version 1."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from enginewatch.model import Labels, Millis
from enginewatch.units import format_float


def point(at: Millis, value: float) -> list[Any]:
    """`[unix seconds, "value"]`: values are strings, since JSON has no NaN."""
    return [at / 1000, format_float(value)]


def metric(labels: Labels) -> dict[str, str]:
    return dict(labels)


def success(data: Any, warnings: list[str] | None = None) -> JSONResponse:
    body: dict[str, Any] = {"status": "success", "data": data}
    if warnings:
        body["warnings"] = warnings
    return JSONResponse(body)


def failure(status: int, kind: str, message: str) -> JSONResponse:
    """An error as Prometheus answers it; `kind` is `bad_data`, `execution`, `timeout`, …"""
    return JSONResponse(
        {"status": "error", "errorType": kind, "error": message}, status_code=status
    )
