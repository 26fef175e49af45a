"""Query parameters as Prometheus' HTTP API defines them, read strictly.

Every reader raises `ParameterError`, whose text names the parameter, what was
given and what would be right; the API answers it with status 400.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from starlette.requests import Request

from enginewatch.errors import EnginewatchError
from enginewatch.model import Matcher, Millis
from enginewatch.promql.ast import Expr, VectorSelector
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.parser import parse_expr
from enginewatch.units import parse_duration, parse_time

MAX_POINTS = 11_000
"""Points per series in one range query, as in Prometheus (`web/api/v1/api.go`)."""

MAX_BODY = 1 << 20


class ParameterError(EnginewatchError):
    """A request that can't be meant."""


class Params:
    """The parameters of one request, from its query string and, for POST, its form body."""

    def __init__(self, values: Mapping[str, Sequence[str]]):
        self._values = values

    @classmethod
    async def of(cls, request: Request) -> Params:
        pairs = request.query_params.multi_items()
        if request.method == "POST":
            form = (await read_body(request)).decode("utf-8", "replace")
            pairs += parse_qsl(form, keep_blank_values=True)
        merged: dict[str, list[str]] = {}
        for key, value in pairs:
            merged.setdefault(key, []).append(value)
        return cls(merged)

    def all(self, name: str) -> Sequence[str]:
        return self._values.get(name, ())

    def text(self, name: str) -> str | None:
        values = self.all(name)
        return values[0] if values and values[0] else None

    def required(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise ParameterError("is missing", where=f"parameter {name}")
        return value

    def time(self, name: str, default: Millis | None) -> Millis:
        text = self.text(name) if default is not None else self.required(name)
        if text is None:
            assert default is not None
            return default
        try:
            return parse_time(text)
        except ValueError as failure:
            raise ParameterError(str(failure), where=f"parameter {name}") from None

    def span(self, name: str) -> Millis:
        """A positive duration, as float seconds or in Prometheus' notation."""
        text = self.required(name)
        try:
            millis = round(float(text) * 1000)
        except (ValueError, OverflowError):
            try:
                millis = parse_duration(text)
            except ValueError as failure:
                raise ParameterError(str(failure), where=f"parameter {name}") from None
        if millis <= 0:
            raise ParameterError(
                f"{text!r} is not a positive duration", where=f"parameter {name}", hint="try 15s"
            )
        return millis

    def expr(self, name: str) -> Expr:
        text = self.required(name)
        try:
            return parse_expr(text)
        except PromQLError as failure:
            raise ParameterError(str(failure), where=f"parameter {name}") from None

    def selectors(self, name: str = "match[]") -> list[tuple[Matcher, ...]]:
        """The series selectors given as `match[]`."""
        found = []
        for text in self.all(name):
            try:
                parsed = parse_expr(text)
            except PromQLError as failure:
                raise ParameterError(str(failure), where=f"parameter {name}") from None
            if not isinstance(parsed, VectorSelector):
                raise ParameterError(
                    f"{text!r} is not a series selector",
                    where=f"parameter {name}",
                    hint='try up{job="vllm"}',
                )
            found.append(parsed.matchers)
        return found


async def read_body(request: Request) -> bytes:
    """What was sent. Raises ParameterError for more than anybody can mean: a query is short."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise ParameterError(f"it is longer than {MAX_BODY} bytes", where="request body")
    return body


def steps(params: Params) -> tuple[Millis, Millis, Millis]:
    """`start`, `end` and `step` of a range query, within bounds."""
    start, end = params.time("start", None), params.time("end", None)
    step = params.span("step")
    if end < start:
        raise ParameterError("lies before start", where="parameter end")
    if (end - start) // step > MAX_POINTS:
        raise ParameterError(
            f"more than {MAX_POINTS} points per series",
            where="parameter step",
            hint="widen the step or shorten the range",
        )
    return start, end, step
