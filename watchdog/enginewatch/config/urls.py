"""A configuration for engines that are named on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from enginewatch.config.errors import ConfigError
from enginewatch.config.http import Authorization
from enginewatch.config.presets import PRESETS
from enginewatch.config.root import Config
from enginewatch.config.scrape import address_problem
from enginewatch.config.section import check_url


def config_for_urls(
    urls: Sequence[str], runtime: str | None = None, authorization: Authorization | None = None
) -> Config:
    """Watch these: `http://host:8000`, or `host:8000`. Raises ConfigError naming the URL.

    A URL with a path keeps it; others get the path, and the port, where engines of
    this `runtime` serve their metrics (`/metrics` when it is not given). The host is
    the job, and so the deployment; several engines of one host are one job. All are shown the
    same `authorization`.
    """
    if runtime is not None and runtime not in PRESETS:
        raise ConfigError(f"no preset for runtime {runtime!r}", hint=f"one of {', '.join(PRESETS)}")
    jobs: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for url in urls:
        parts = _parts(url)
        key = (parts.hostname or "", parts.scheme, parts.path.rstrip("/"), parts.query)
        job = jobs.setdefault(key, _job(parts, runtime))
        targets = job["static_configs"][0]["targets"]
        address = _address(parts, runtime)
        problem = address_problem(address)
        if problem:
            raise ConfigError(problem[0], where=url, hint=problem[1])
        if address not in targets:
            targets.append(address)
        if authorization is not None:
            job["authorization"] = authorization
    names: dict[str, int] = {}
    for job in jobs.values():
        names[job["job_name"]] = count = names.get(job["job_name"], 0) + 1
        if count > 1:
            job["job_name"] += f"-{count}"
    try:
        return Config.model_validate(
            {"scrape_configs": list(jobs.values())}, context={"base": Path()}
        )
    except ValidationError as failure:
        raise ConfigError(failure.errors()[0]["msg"], where=" ".join(urls)) from None


def _parts(url: str) -> SplitResult:
    full = url if "://" in url else f"http://{url}"
    try:
        return urlsplit(check_url(full))
    except PydanticCustomError as failure:
        context = failure.context or {}
        # The URL itself may be what must not be shown.
        where = "" if "credentials" in context["what"] else url
        raise ConfigError(context["what"], where=where, hint=context["hint"]) from None


def _job(parts: SplitResult, runtime: str | None) -> dict[str, Any]:
    path = parts.path.rstrip("/")
    return {
        "job_name": parts.hostname,
        "scheme": parts.scheme,
        "static_configs": [{"targets": []}],
        "params": parse_qs(parts.query, keep_blank_values=True),
        **({"metrics_path": path} if path else {}),
        **({"runtime": runtime} if runtime else {}),
    }


def _address(parts: SplitResult, runtime: str | None) -> str:
    if parts.port is None and runtime is not None:
        return f"{parts.netloc}:{PRESETS[runtime].port}"
    return parts.netloc
