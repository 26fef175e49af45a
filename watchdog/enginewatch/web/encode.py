"""PromQL values as the JSON of Prometheus' HTTP API, version 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.responses import JSONResponse

from enginewatch.model import Labels, Millis
from enginewatch.promql.values import Annotation, Level
from enginewatch.units import format_float


def point(at: Millis, value: float) -> list[Any]:
    """`[unix seconds, "value"]`: values are strings, since JSON has no NaN."""
    return [at / 1000, format_float(value)]


def metric(labels: Labels) -> dict[str, str]:
    return dict(labels)


def success(data: Any, annotations: Iterable[Annotation] = (), expr_text: str = "") -> JSONResponse:
    """An answer; `annotations` are what the evaluator had to remark on `expr_text`."""
    body: dict[str, Any] = {"status": "success", "data": data}
    for key, level in (("warnings", Level.WARNING), ("infos", Level.INFO)):
        said = [note.describe(expr_text) for note in annotations if note.level is level]
        if said:
            body[key] = said
    return JSONResponse(body)


def failure(status: int, kind: str, message: str) -> JSONResponse:
    """An error as Prometheus answers it; `kind` is `bad_data`, `execution`, `timeout`, …"""
    return JSONResponse(
        {"status": "error", "errorType": kind, "error": message}, status_code=status
    )
