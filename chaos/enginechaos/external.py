"""A target that a file names: reached, refused where it looks like production, and acted on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import httpx
import psutil

from enginechaos.actors import Actor, actor_of
from enginechaos.errors import TargetError
from enginechaos.processes import Process, below
from enginechaos.staging import StagingFile, refuse_labels
from enginechaos.target import ROLES, Target

_LABEL: Final = re.compile(
    r'\b(env|environment|stage|tier|cluster|namespace|deployment)="((?:[^"\\]|\\.)*)"'
)
_PAGE: Final = 2_000_000


def open_target(file: StagingFile) -> Target:
    """The target of a file, which nothing was done to yet. Raises ChaosError.

    Its page is read once, to see that it is there and what its labels say.
    """
    metrics = file.engine.metrics or f"{file.engine.url.rstrip('/')}/metrics"
    headers = file.headers()
    refuse_labels(_labels(_page(metrics, headers)), metrics)
    actor = actor_of(_spec(file), "act")
    return Target(
        name=file.name,
        deployment=file.deployment,
        tier=file.tier,
        url=file.engine.url.rstrip("/"),
        metrics_url=metrics,
        model=file.engine.model,
        table=_table(file, actor),
        actor=actor,
        runtime=file.engine.runtime,
        log_files=file.engine.logs,
        roles={**ROLES, **file.processes},
        may_induce=frozenset(file.may_induce),
        limits=file.caps,
        guards=file.guards,
    )


def _spec(file: StagingFile) -> Mapping[str, Any]:
    given = file.act.model_dump(exclude_none=True, exclude={"port"})
    return {key: value for key, value in given.items() if key != "host"}


def _page(url: str, headers: Mapping[str, str]) -> str:
    try:
        answer = httpx.get(url, headers=dict(headers), timeout=10, trust_env=False)
        answer.raise_for_status()
    except httpx.HTTPError as failure:
        raise TargetError(
            f"can't be reached: {failure or type(failure).__name__}",
            where=url,
            hint="nothing was injected",
        ) from None
    return answer.text[:_PAGE]


def _labels(page: str) -> dict[str, str]:
    return {found[1]: found[2] for found in _LABEL.finditer(page)}


def _table(file: StagingFile, actor: Actor) -> Callable[[], Sequence[Process]]:
    """The engine's own processes: what listens at its port and all below it, or its container's."""
    if file.act.kind != "local":
        return actor.processes
    port = file.act.port or httpx.URL(file.engine.url).port or 80

    def mine() -> Sequence[Process]:
        table = actor.processes()
        return [found for root in _listeners(port) for found in below(root, table)]

    return mine


def _listeners(port: int) -> list[int]:
    """The processes that listen at a port of this machine, as far as this user may see."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.Error as failure:
        raise TargetError(f"can't see who listens at port {port}: {failure}") from None
    return sorted(
        {
            each.pid
            for each in connections
            if each.status == psutil.CONN_LISTEN and each.laddr[1:2] == (port,) and each.pid
        }
    )
