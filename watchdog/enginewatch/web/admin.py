"""Health, readiness, reload, and the daemon's own metrics."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from enginewatch.errors import EnginewatchError

ONLY_HERE: Final = (
    "refused: without a token only this machine may change anything; set web.token_file\n"
)


@dataclass(frozen=True)
class Admin:
    """The routes under `/-/` and `/metrics`.

    `ailment` tells what is wrong with the daemon, or None; `starting` what it
    still waits for, or None. `reload` raises EnginewatchError and then leaves the
    running configuration in force. `token`, where there is one, is asked for by
    everything that changes state.
    """

    registry: CollectorRegistry
    ailment: Callable[[], str | None]
    starting: Callable[[], str | None]
    reload: Callable[[], Awaitable[None]]
    token: Callable[[], str | None]

    def routes(self) -> list[Route]:
        return [
            Route("/-/healthy", self.healthy, methods=["GET", "HEAD"]),
            Route("/-/ready", self.ready, methods=["GET", "HEAD"]),
            Route("/-/reload", self.reload_now, methods=["POST", "PUT"]),
            Route("/metrics", self.metrics),
        ]

    async def healthy(self, _: Request) -> Response:
        return _state("healthy", self.ailment())

    async def ready(self, _: Request) -> Response:
        return _state("ready", self.starting())

    async def reload_now(self, request: Request) -> Response:
        if (refusal := self.refusal(request)) is not None:
            return refusal
        try:
            await self.reload()
        except EnginewatchError as failure:
            text = f"not reloaded, the running configuration stays in force:\n{failure}\n"
            return PlainTextResponse(text, status_code=422)
        return PlainTextResponse("reloaded\n")

    async def metrics(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self.registry), headers={"Content-Type": content_type})

    def needs_token(self) -> bool:
        """Whether `refusal` asks for a token."""
        try:
            return self.token() is not None
        except EnginewatchError:
            return True

    def refusal(self, request: Request, given: str | None = None) -> Response | None:
        """The answer to a state-changing request that may not be served, else None.

        The token comes in the Authorization header, or is `given`, from a form. Without
        a token only this machine may change anything, and of a browser on it only our
        own pages: a page of another site could post here, which its `Origin` gives
        away, or, where that site's name was made to lead here, the name itself.
        """
        try:
            expected = self.token()
        except EnginewatchError as failure:
            said = f"refused, as the API token can't be read: {failure}\n"
            return PlainTextResponse(said, status_code=503)
        if expected is not None:
            return None if _shows(request, given, expected) else _unauthorized()
        if not is_loopback((request.scope.get("server") or ("", 0))[0]):
            return PlainTextResponse(ONLY_HERE, status_code=403)
        origin = request.headers.get("origin")
        if origin is not None:
            site = urlsplit(origin)
            named = site.hostname == "localhost" or is_loopback(site.hostname or "")
            if not named or site.netloc != request.headers.get("host"):
                return PlainTextResponse("refused: sent by another site\n", status_code=403)
        return None


def _shows(request: Request, given: str | None, expected: str) -> bool:
    """Whether a request shows that it knows the token."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        credentials = given or ""
    return hmac.compare_digest(credentials.encode(), expected.encode())


def _unauthorized() -> Response:
    return PlainTextResponse(
        "needs the API token: Authorization: Bearer <web.token_file>\n",
        status_code=401,
        headers={"WWW-Authenticate": "Bearer"},
    )


def is_loopback(host: str) -> bool:
    """Whether an address, not a name, is one that only this machine reaches."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _state(word: str, trouble: str | None) -> Response:
    if trouble is None:
        return PlainTextResponse(f"enginewatch is {word}\n")
    return PlainTextResponse(f"enginewatch is not {word}: {trouble}\n", status_code=503)
