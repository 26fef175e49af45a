"""Errors of a handler, answered as Prometheus' API answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from enginewatch.promql.errors import EvaluationError
from enginewatch.web.encode import failure
from enginewatch.web.params import ParameterError

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
