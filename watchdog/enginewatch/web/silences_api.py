"""Silences over HTTP as in Alertmanager's API, version 2: what `amtool silence` speaks.

The API: github.com/prometheus/alertmanager, api/v2/openapi.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from enginewatch.config import parse_matchers
from enginewatch.errors import EnginewatchError
from enginewatch.model import Matcher, MatchOp, Millis, matches_all
from enginewatch.notify.silence import Silence, SilenceError, SilenceState
from enginewatch.units import format_time, parse_time
from enginewatch.web.desk import Desk
from enginewatch.web.params import ParameterError, read_body

ORDER: Final = (SilenceState.ACTIVE, SilenceState.PENDING, SilenceState.EXPIRED)

_OPERATORS: Final = {
    (False, True): MatchOp.EQUAL,
    (False, False): MatchOp.NOT_EQUAL,
    (True, True): MatchOp.REGEX,
    (True, False): MatchOp.NOT_REGEX,
}
"""By `isRegex` and `isEqual`."""


def _moment(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("time", "not a time: give RFC 3339, 2026-01-31T12:00:00Z")
    return parse_time(value)


Moment = Annotated[Millis, BeforeValidator(_moment)]


class PostedMatcher(BaseModel):
    model_config = ConfigDict(strict=True)

    name: str = Field(min_length=1)
    value: str
    is_regex: bool = Field(alias="isRegex")
    is_equal: bool = Field(True, alias="isEqual")

    def matcher(self) -> Matcher:
        """Raises ValueError."""
        return Matcher(self.name, _OPERATORS[self.is_regex, self.is_equal], self.value)


class PostedSilence(BaseModel):
    """The body of a POST; times are RFC 3339."""

    model_config = ConfigDict(strict=True)

    id: str = ""
    matchers: list[PostedMatcher]
    starts_at: Moment = Field(alias="startsAt")
    ends_at: Moment = Field(alias="endsAt")
    created_by: str = Field(alias="createdBy")
    comment: str

    def silence(self) -> Silence:
        """Raises ValueError."""
        matchers = tuple(each.matcher() for each in self.matchers)
        return Silence(
            matchers, self.starts_at, self.ends_at, self.created_by, self.comment, self.id
        )


@dataclass(frozen=True)
class SilencesApi:
    """The routes. `refusal` answers requests that may not change anything."""

    desk: Desk
    clock: Callable[[], Millis]
    refusal: Callable[[Request], Response | None]

    def routes(self) -> list[Route]:
        return [
            Route("/api/v2/silences", self.listing),
            Route("/api/v2/silences", self.post, methods=["POST"]),
            Route("/api/v2/silence/{id}", self.one),
            Route("/api/v2/silence/{id}", self.expire, methods=["DELETE"]),
        ]

    async def listing(self, request: Request) -> Response:
        try:
            wanted = filters(request)
        except ParameterError as mistake:
            return error(400, str(mistake))
        now = self.clock()
        found = [s for s in self.desk.silences.all() if _is_about(s, wanted)]
        found.sort(key=lambda s: (ORDER.index(s.state(now)), s.ends_at, s.id))
        return JSONResponse([silence_json(silence, now) for silence in found])

    async def post(self, request: Request) -> Response:
        if (refused := self.refusal(request)) is not None:
            return refused
        try:
            silence = PostedSilence.model_validate_json(await read_body(request)).silence()
        except ValidationError as mistakes:
            return error(400, _first(mistakes))
        except (ParameterError, ValueError) as mistake:
            return error(400, str(mistake))
        if silence.id and not self._known(silence.id):
            return error(404, f"no silence has the id {silence.id!r}")
        try:
            kept = self.desk.silences.put(silence, self.clock())
        except SilenceError as mistake:
            return error(400, str(mistake))
        return await self._kept() or JSONResponse({"silenceID": kept.id})

    async def one(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        if not self._known(id_):
            return error(404, f"no silence has the id {id_!r}")
        return JSONResponse(silence_json(self.desk.silences.get(id_), self.clock()))

    async def expire(self, request: Request) -> Response:
        if (refused := self.refusal(request)) is not None:
            return refused
        try:
            self.desk.silences.expire(request.path_params["id"], self.clock())
        except SilenceError as mistake:
            return error(404, str(mistake))
        return await self._kept() or Response()

    async def _kept(self) -> Response | None:
        """Saves what was changed; the answer when that fails."""
        try:
            await self.desk.keep()
        except EnginewatchError as failure:
            return error(500, f"in force, but lost at a restart, as it can't be saved: {failure}")
        return None

    def _known(self, id_: str) -> bool:
        return any(silence.id == id_ for silence in self.desk.silences.all())


def filters(request: Request) -> tuple[Matcher, ...]:
    """The matchers given as `filter`. Raises ParameterError."""
    found: list[Matcher] = []
    for text in request.query_params.getlist("filter"):
        try:
            found += parse_matchers(text)
        except ValueError as mistake:
            raise ParameterError(str(mistake), where="parameter filter") from None
    return tuple(found)


def _is_about(silence: Silence, wanted: Sequence[Matcher]) -> bool:
    """Alertmanager's reading of a filter: a silence's matchers are looked at as if labels."""
    return matches_all({m.name: m.value for m in silence.matchers}, wanted)


def silence_json(silence: Silence, now: Millis) -> dict[str, Any]:
    return {
        "id": silence.id,
        "status": {"state": silence.state(now).value},
        "matchers": [matcher_json(each) for each in silence.matchers],
        "startsAt": format_time(silence.starts_at),
        "endsAt": format_time(silence.ends_at),
        "updatedAt": format_time(silence.updated_at),
        "createdBy": silence.created_by,
        "comment": silence.comment,
    }


def matcher_json(matcher: Matcher) -> dict[str, Any]:
    return {
        "name": matcher.name,
        "value": matcher.value,
        "isRegex": matcher.op in (MatchOp.REGEX, MatchOp.NOT_REGEX),
        "isEqual": matcher.op in (MatchOp.EQUAL, MatchOp.REGEX),
    }


def matcher_of(found: Any) -> Matcher:
    """What `matcher_json` made of a matcher. Raises ValueError for anything else."""
    return PostedMatcher.model_validate(found).matcher()


def error(status: int, text: str) -> JSONResponse:
    """An error as Alertmanager answers it: a JSON string."""
    return JSONResponse(text, status_code=status)


def _first(mistakes: ValidationError) -> str:
    """The first thing wrong with a body, and where in it."""
    first = mistakes.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]
