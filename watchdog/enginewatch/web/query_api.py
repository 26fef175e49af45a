"""Prometheus' query API over the embedded store: query, query_range, series, labels, metadata.

Queries run in worker threads, a few at a time, so that a heavy one delays
neither scraping nor evaluation. Documented at prometheus.io/docs/prometheus/latest/querying/api.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from enginewatch.model import Labels, Matcher, Millis
from enginewatch.promql.evaluator import Evaluator
from enginewatch.promql.values import Limits, Matrix, Scalar, Series, String, Value, Vector
from enginewatch.store.base import Storage
from enginewatch.web.answer import answered
from enginewatch.web.encode import metric, point, success
from enginewatch.web.params import ParameterError, Params, steps

T = TypeVar("T")

CONCURRENT_QUERIES = 4
"""Queries computed at once; more wait their turn. Prometheus allows 20, on more than one core."""

QUERY_SECONDS = 30.0
QUERY_SAMPLES = 50_000_000
"""What one query may take and read: Prometheus' `query.max-samples`, a quarter of its timeout."""


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
        limits = self._limits()
        value = await self._compute(lambda: self._evaluator().instant(expr, at, limits=limits))
        return success(instant_json(value, at), value.annotations, params.required("query"))

    async def query_range(self, request: Request) -> JSONResponse:
        params = await Params.of(request)
        expr = params.expr("query")
        start, end, step = steps(params)
        limits = self._limits()

        def work() -> JSONResponse:
            found = self._evaluator().range(expr, start, end, step, limits=limits)
            data = {"resultType": "matrix", "result": matrix(found.series)}
            return success(data, found.annotations, params.required("query"))

        return await self._compute(work)

    def _limits(self) -> Limits:
        """What one query may cost, its clock starting now, waiting for a slot included."""
        deadline = time.monotonic() + QUERY_SECONDS
        return Limits(samples=QUERY_SAMPLES, expired=lambda: time.monotonic() > deadline)

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


def matrix(found: Iterable[Series]) -> list[dict[str, Any]]:
    """Series with their samples, as range queries and range selectors answer them."""
    return [
        {
            "metric": metric(labels),
            "values": list(map(point, times.tolist(), values.tolist())),
        }
        for labels, times, values in found
    ]


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
            return {"resultType": "matrix", "result": matrix(value.series())}
    raise TypeError(f"no JSON for a {value.type.value}")
