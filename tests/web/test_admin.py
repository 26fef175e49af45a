"""Who may change something: by token, by address, by the site that a form comes from."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request

from enginewatch.web.admin import Admin


def refused(
    token: str | None, server: str = "127.0.0.1", given: str | None = None, **headers: str
) -> int | None:
    """The status of the refusal, None where the request may go on."""

    async def nothing() -> None: ...

    admin = Admin(CollectorRegistry(), lambda: None, lambda: None, nothing, lambda: token)
    request = Request(
        {
            "type": "http",
            "method": "POST",
            "path": "/",
            "server": (server, 9469),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
    )
    answer = admin.refusal(request, given)
    return None if answer is None else answer.status_code


@pytest.mark.parametrize(
    ("server", "status"),
    [
        ("127.0.0.1", None),
        ("127.9.9.9", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        ("10.0.0.7", 403),
        ("fe80::1", 403),
        ("", 403),
    ],
)
def test_without_a_token_only_this_machine_changes_anything(
    server: str, status: int | None
) -> None:
    assert refused(None, server) == status


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("http://127.0.0.1:9469", "127.0.0.1:9469", None),
        ("http://localhost:9469", "localhost:9469", None),
        ("http://[::1]:9469", "[::1]:9469", None),
        ("http://127.0.0.1:8080", "127.0.0.1:9469", 403),
        ("https://evil.example", "127.0.0.1:9469", 403),
        # A name that was made to lead to this machine after its page was loaded.
        ("http://evil.example:9469", "evil.example:9469", 403),
        ("null", "127.0.0.1:9469", 403),
    ],
)
def test_of_a_browser_only_our_own_pages(origin: str, host: str, status: int | None) -> None:
    assert refused(None, origin=origin, host=host) == status


def test_with_a_token_whoever_knows_it() -> None:
    for server in ("127.0.0.1", "10.0.0.7"):
        assert refused("s", server) == 401
        assert refused("s", server, authorization="Bearer s") is None
        assert refused("s", server, authorization="bearer s") is None
        assert refused("s", server, authorization="Basic s") == 401
        assert refused("s", server, authorization="Bearer x") == 401
        assert refused("s", server, "s") is None
        assert refused("s", server, "x") == 401
        assert refused("s", server, "ü") == 401
        # The header is what a client means; a form can't overrule it.
        assert refused("s", server, "s", authorization="Bearer x") == 401


@pytest.mark.parametrize(
    ("ailment", "status", "said"),
    [
        (None, 200, "enginewatch is healthy\n"),
        ("nothing leaves for hook", 503, "enginewatch is not healthy: nothing leaves for hook\n"),
    ],
)
def test_health_says_what_is_wrong(ailment: str | None, status: int, said: str) -> None:
    async def nothing() -> None: ...

    admin = Admin(CollectorRegistry(), lambda: ailment, lambda: None, nothing, lambda: None)
    answer = asyncio.run(admin.healthy(Request({"type": "http"})))
    assert (answer.status_code, bytes(answer.body).decode()) == (status, said)
