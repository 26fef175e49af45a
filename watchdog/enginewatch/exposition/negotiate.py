"""Which format a page is in, and a plain reason when it is none that we read."""

from __future__ import annotations

import re
from typing import Final

from enginewatch.exposition.errors import PageError
from enginewatch.exposition.grammar import Dialect
from enginewatch.model import ScrapeFailure

ACCEPT: Final = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus 3 asks for when protobuf is off."""

_JSON_OBJECT: Final = re.compile(r'\s*\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:)')


def decode(body: bytes) -> str:
    """The text of a page. Raises PageError naming the line that is not UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError as failure:
        if body.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise PageError(
                "the page is UTF-16", hint="UTF-8 is expected", reason=ScrapeFailure.FORMAT
            ) from None
        line = body.count(b"\n", 0, failure.start) + 1
        raise PageError(
            f"byte 0x{body[failure.start]:02x} is not valid UTF-8", where=f"line {line}"
        ) from None


def dialect_of(text: str, content_type: str) -> Dialect:
    """The dialect, from the Content-Type where it names one and from the text otherwise.

    Engines and proxies mislabel plain pages often, so a wrong type alone is no
    error; what is clearly another format is. Raises PageError.
    """
    media = content_type.partition(";")[0].strip().lower()
    if media == "application/vnd.google.protobuf":
        raise PageError(
            "the page is in the protobuf format, which is not read",
            hint="the server ignored the Accept header; let it serve text",
            reason=ScrapeFailure.FORMAT,
        )
    if media == "application/openmetrics-text":
        return Dialect.OPENMETRICS
    start = text[:200].lstrip()
    if start.startswith("<"):
        raise PageError(
            "the page is HTML or XML, not metrics",
            hint="is metrics_path right, and no login page or proxy in between?",
            reason=ScrapeFailure.FORMAT,
        )
    if start.startswith("[") or _JSON_OBJECT.match(text):
        raise PageError(
            "the page is JSON, not metrics",
            hint="trtllm-serve serves JSON at /metrics and Prometheus text at /prometheus/metrics, "
            "when return_perf_metrics is true",
            reason=ScrapeFailure.FORMAT,
        )
    if start.startswith("\ufeff"):
        raise PageError("the page starts with a byte order mark", hint="plain UTF-8 is expected")
    if not media and text.rstrip("\n").endswith("\n# EOF"):
        return Dialect.OPENMETRICS
    return Dialect.TEXT
