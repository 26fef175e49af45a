"""What a running endpoint showed when it was looked at once (`collect.endpoint` looks)."""

from __future__ import annotations

from dataclasses import dataclass

from enginewatch.alerting.coverage import Blind


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`result` is how a one-token request ended, in the words of `collect.probe_dialect`, after
    `seconds`; `problem` is why it brought no token. `health` is the status of the health page,
    None where there is no such page, 0 where it did not answer.

    `unscraped` is why there is no metrics page, empty where there is one; `samples` are how
    many it has; `runtime` the engine told by their names, and `blind` the hazards that could
    not be seen with them.
    """

    url: str
    result: str
    seconds: float
    problem: str = ""
    health: int | None = None
    model: str = ""
    runtime: str = ""
    unscraped: str = ""
    samples: int = 0
    blind: tuple[Blind, ...] = ()
