"""Prometheus' query API over the embedded store: query, query_range, series, labels, metadata.

Queries run in worker threads, a few at a time, so that a heavy one delays
neither scraping nor evaluation. Documented at prometheus.io/docs/prometheus/latest/querying/api.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from enginewatch.model import Labels, Matcher, Millis
from enginewatch.promql.ast import Expr
from enginewatch.promql.evaluator import Evaluator
from enginewatch.promql.values import EvaluationError, Matrix, Scalar, String, Value, Vector
from enginewatch.store.base import Storage
from enginewatch.web.encode import failure, metric, point, success
from enginewatch.web.params import ParameterError, Params, steps

T = TypeVar("T")

CONCURRENT_QUERIES = 4
"""Queries computed at once; more wait their turn. Prometheus allows 20, on more than one core."""


class QueryApi:
    """The routes, for one store. `clock` gives the current time in ms."""

    def __init__(
        self, storage: Storage, evaluator: Callable[[], Evaluator], clock: Callable[[], Millis]
    ):
        self._storage = storage
        self._evaluator = evaluator
        self._clock = clock
        self._slots = asyncio.Semaphore(CONCURRENT_QUERIES)

    def routes(self) -> list[Route]:
        both = ["GET", "POST"]
        return [
            Route("/api/v1/query", answered(self.query), methods=both),
            Route("/api/v1/query_range", answered(self.query_range), methods=both),
            Route("/api/v1/series", answered(self.series), methods=both),
            Route("/api/v1/labels", answered(self.labels), methods=both),
            Route("/api/v1/label/{name:path}/values", answered(self.label_values)),
            Route("/api/v1/metadata", answered(self.metadata)),
        ]

    async def _compute(self, work: Callable[[], T]) -> T:
        async with self._slots:
            return await asyncio.to_thread(work)

    async def query(self, request: Request) -> JSONResponse:
        params = await Params.of(request)
        expr = params.expr("query")
        at = params.time("time", self._clock())
        value = await self._compute(lambda: self._evaluator().instant(expr, at))
        return success(instant_json(value, at), warnings_of(value))

    async def query_range(self, request: Request) -> JSONResponse:
        params = await Params.of(request)
        expr = params.expr("query")
        start, end, step = steps(params)
        return await self._compute(lambda: self._range(expr, start, end, step))

    def _range(self, expr: Expr, start: Millis, end: Millis, step: Millis) -> JSONResponse:
        found = self._evaluator().range(expr, start, end, step)
        result = [
            {
                "metric": metric(labels),
                "values": [point(int(t), float(v)) for t, v in zip(times, values, strict=True)],
            }
            for labels, times, values in found.series
        ]
        data = {"resultType": "matrix", "result": result}
        return success(data, list(found.warnings))

    async def series(self, request: Request) -> JSONResponse:
        params = await Params.of(request)
        if not params.all("match[]"):
            raise ParameterError("is missing", where="parameter match[]", hint="try up")
        return success([metric(labels) for labels in sorted(await self._matching(params))])

    async def labels(self, request: Request) -> JSONResponse:
        params = await Params.of(request)
        return success(sorted({name for labels in await self._matching(params) for name in labels}))

    async def label_values(self, request: Request) -> JSONResponse:
        params = await Params.of(request)
        name = request.path_params["name"]
        found = {labels[name] for labels in await self._matching(params) if name in labels}
        return success(sorted(found))

    async def _matching(self, params: Params) -> set[Labels]:
        """The series that any `match[]` selects, all where there is none."""
        selectors: Iterable[tuple[Matcher, ...]] = params.selectors() or [()]
        bounds = (
            params.time("start", None) - 1 if params.text("start") else None,
            params.time("end", None) if params.text("end") else None,
        )
        return await self._compute(
            lambda: {labels for some in selectors for labels in self._storage.series(some, *bounds)}
        )

    async def metadata(self, request: Request) -> JSONResponse:
        params = await Params.of(request)
        wanted = params.text("metric")
        known = self._storage.metadata()
        return success(
            {
                name: [{"type": m.type.value, "help": m.help, "unit": m.unit}]
                for name, m in sorted(known.items())
                if wanted in (None, name)
            }
        )


Handler = Callable[[Request], Awaitable[Response]]


def answered(handler: Handler) -> Handler:
    """`handler` with its errors answered as Prometheus answers them."""

    async def respond(request: Request) -> Response:
        try:
            return await handler(request)
        except ParameterError as mistake:
            return failure(400, "bad_data", str(mistake))
        except EvaluationError as mistake:
            return failure(422, "execution", str(mistake))

    return respond


def warnings_of(value: Value) -> list[str]:
    return list(getattr(value, "warnings", ()))


def instant_json(value: Value, at: Millis) -> dict[str, Any]:
    """`resultType` and `result` of an instant query."""
    match value:
        case Scalar():
            return {"resultType": "scalar", "result": point(at, value.value)}
        case String():
            return {"resultType": "string", "result": [at / 1000, value.value]}
        case Vector():
            result = [
                {"metric": metric(labels), "value": point(at, number)}
                for labels, number in value.samples()
            ]
            return {"resultType": "vector", "result": result}
        case Matrix():
            rows = [
                {
                    "metric": metric(labels),
                    "values": [point(int(t), float(v)) for t, v in zip(times, values, strict=True)],
                }
                for labels, times, values in value.series()
            ]
            return {"resultType": "matrix", "result": rows}
