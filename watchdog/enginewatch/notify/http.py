"""Posting JSON to a provider, and what its answer means for another attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from enginewatch.model import Millis
from enginewatch.notify.message import DeliveryError, FailureReason, Receipt
from enginewatch.notify.text import one_line

TRY_AGAIN: Final = frozenset({408, 425, 429})
"""Client errors that another attempt may cure; every 5xx is one too, every other 4xx is final."""

EXCERPT: Final = 200

LONGEST: Final = 1 << 20
"""Bytes of an answer that are read; Slack's, which repeats the message, has some 30 KB."""

_OF_THE_WIRE: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


async def post(
    client: httpx.AsyncClient,
    url: str,
    body: Mapping[str, Any] | Sequence[Any],
    *,
    receiver: str,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """POST `body` as JSON. Raises `DeliveryError` when no answer came; never names the URL.

    It takes twice the client's timeout at most, as one that sends a byte now and then
    would never be out of time otherwise; of an answer no more is read than `LONGEST`.
    """
    patience = client.timeout.read
    try:
        async with asyncio.timeout(None if patience is None else 2 * patience):
            return await _post(client, url, body, dict(headers or {}))
    except (httpx.ConnectTimeout, httpx.PoolTimeout):
        raise DeliveryError(
            "did not answer in time", where=receiver, retryable=True, reason=FailureReason.TIMEOUT
        ) from None
    except (httpx.TimeoutException, TimeoutError):
        raise DeliveryError(
            "did not answer in time",
            where=receiver,
            retryable=True,
            reason=FailureReason.TIMEOUT,
            maybe_delivered=True,
        ) from None
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise DeliveryError(
            "its URL is not an http or https URL",
            where=receiver,
            retryable=False,
            reason=FailureReason.CONFIGURATION,
        ) from None
    except httpx.HTTPError as broken:
        # httpx puts the host, never the path or the query, into transport errors; a webhook's
        # secret may still be its host name, so only the kind of failure is told.
        raise DeliveryError(
            f"could not be reached: {type(broken).__name__}",
            where=receiver,
            retryable=True,
            reason=FailureReason.UNREACHABLE,
            maybe_delivered=not isinstance(broken, httpx.ConnectError),
        ) from None


async def _post(
    client: httpx.AsyncClient,
    url: str,
    body: Mapping[str, Any] | Sequence[Any],
    headers: dict[str, str],
) -> httpx.Response:
    async with client.stream("POST", url, json=body, headers=headers) as answer:
        read = b""
        async for chunk in answer.aiter_bytes():
            read += chunk
            if len(read) > LONGEST:
                break
    # What describes the body on the wire is not true of what was read of it.
    told = {k: v for k, v in answer.headers.items() if k not in _OF_THE_WIRE}
    return httpx.Response(
        answer.status_code, headers=told, content=read, extensions=answer.extensions
    )


async def deliver(
    client: httpx.AsyncClient, url: str, body: Any, *, receiver: str, headers: Mapping[str, str]
) -> Receipt:
    """`post` and `check` for a receiver whose answer says no more than its status."""
    answer = await post(client, url, body, receiver=receiver, headers=headers)
    check(answer, receiver=receiver)
    return Receipt(detail=f"{answer.status_code} {answer.reason_phrase}")


def check(answer: httpx.Response, *, receiver: str, secrets: Collection[str] = ()) -> None:
    """Raise `DeliveryError` unless the answer is a success; it quotes none of `secrets`."""
    if answer.is_success:
        return
    said = excerpt(answer, secrets)
    raise DeliveryError(
        f"answered {answer.status_code} {answer.reason_phrase}" + (f": {said}" if said else ""),
        where=receiver,
        retryable=answer.status_code in TRY_AGAIN or answer.status_code >= 500,
        retry_after=retry_after_now(answer),
        reason=reason(answer.status_code),
        # What a gateway answers says nothing about the server behind it.
        maybe_delivered=answer.status_code >= 500,
    )


def excerpt(answer: httpx.Response, secrets: Collection[str] = ()) -> str:
    """The beginning of what was answered, in one line, with each of `secrets` struck out."""
    said = answer.text
    for secret in secrets:
        said = said.replace(secret, "<secret>")
    return one_line(said[:EXCERPT])


def reason(status: int) -> FailureReason:
    """The kind of failure that a status code is."""
    if status == 429:
        return FailureReason.RATE_LIMITED
    return FailureReason.SERVER_ERROR if status >= 500 else FailureReason.REJECTED


def retry_after_now(answer: httpx.Response) -> Millis | None:
    """How long the answer asks to be left alone from now on, in ms."""
    return retry_after(answer, datetime.now(UTC))


def retry_after(answer: httpx.Response, now: datetime) -> Millis | None:
    """The answer's `Retry-After`, given in seconds or as a date (RFC 9110, 10.2.3), in ms."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return int(text) * 1000
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0, round((until - now).total_seconds() * 1000))
