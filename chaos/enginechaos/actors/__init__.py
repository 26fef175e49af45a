"""How a target is acted on: a local process, kubectl; ssh and docker are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginechaos.actors.base import Actor
from enginechaos.actors.kubectl import Kubectl
from enginechaos.actors.local import Local
from enginechaos.errors import TargetError

__all__ = ["Actor", "Kubectl", "Local", "actor_of"]


def actor_of(spec: Mapping[str, Any], where: str = "") -> Actor:
    """The actor that `Actor.spec()` once described. Raises TargetError."""
    match spec:
        case {"kind": "local"}:
            return Local()
        case {"kind": "kubectl", **rest}:
            return Kubectl(**{str(key): str(value) for key, value in rest.items()})
        case {"kind": "ssh" | "docker" as kind}:
            raise TargetError(
                f"acting through {kind} is not offered",
                where=where,
                hint="run the suite on the engine's own machine with kind: local, or use kubectl",
            )
    raise TargetError(f"no way to act: {dict(spec)!r}", where=where, hint="local or kubectl")
