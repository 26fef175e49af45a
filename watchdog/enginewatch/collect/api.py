"""Requests to an engine's API, as probes and the canary make them. Without a deadline."""

from __future__ import annotations

import httpx

from enginewatch import __version__
from enginewatch.collect.probe_dialect import Ask, server_of
from enginewatch.collect.target import ScrapeTarget


def base_of(target: ScrapeTarget, port: int | None) -> httpx.URL:
    """Where the API is: at the port given, or where the runtime has it, or beside the metrics."""
    url = httpx.URL(target.target.url).copy_with(query=None, fragment=None)
    runtime = target.target.labels.get("runtime", "")
    return url.copy_with(port=port or server_of(runtime).port or url.port)


async def exchange(
    client: httpx.AsyncClient, url: httpx.URL, ask: Ask, target: ScrapeTarget, most: int
) -> tuple[int, bytes]:
    """The status, and the body up to where it is known to be over `most` bytes.

    Raises what httpx raises, and ConfigError for secrets that can't be read.
    """
    headers = {"User-Agent": f"enginewatch/{__version__}", "Accept-Encoding": "identity"}
    authorization = target.job.auth_header()
    if authorization is not None:
        headers["Authorization"] = authorization
    request = client.build_request(
        "GET" if ask.body is None else "POST",
        url.copy_with(path=ask.path),
        headers=headers,
        json=ask.body,
    )
    if target.job.tls_config.server_name:
        request.extensions["sni_hostname"] = target.job.tls_config.server_name
    response = await client.send(request, stream=True)
    try:
        return response.status_code, await _start_of(response, most)
    finally:
        await response.aclose()


async def _start_of(response: httpx.Response, most: int) -> bytes:
    """The body, as far as anybody reads it."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        chunks.append(chunk)
        if size > most:
            break
    return b"".join(chunks)
