"""The numbers that the canary decides with, from `rules/canary/decision.yml`."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from enginewatch.canary.errors import CanaryError
from enginewatch.canary.files import text_of
from enginewatch.canary.tasks import DECISION
from enginewatch.rulepack import rules_path
from enginewatch.yamltext import load


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Share(_Part):
    """Of `alpha`."""

    overall: float = Field(ge=0)
    families: float = Field(ge=0)


class Budget(_Part):
    pass_: Share = Field(alias="pass")
    steady: Share
    logprob: Share


class PassTest(_Part):
    tolerance: float = Field(gt=0, lt=1)
    errors: float = Field(ge=0)
    unrepeated: float = Field(gt=0, lt=1)


class LogprobTest(_Part):
    tolerance: float = Field(gt=0, lt=1)
    errors: float = Field(ge=0)
    noise: float = Field(gt=0)
    least: float = Field(gt=0)
    unrepeated: float = Field(gt=0)


class Stake(_Part):
    first: float = Field(gt=0, le=1)
    pace: float = Field(gt=0)

    def reserve(self, answers: int) -> float:
        """What is not bet yet after so many answers."""
        return (1 - self.first) / (1 + math.log1p(answers / self.pace))


class Recovery(_Part):
    level: float = Field(gt=1)
    bet: float = Field(gt=0, lt=1)
    prior: int = Field(ge=0)
    recent: int = Field(gt=0)


class Run(_Part):
    least: int = Field(gt=0)
    share: float = Field(gt=0, le=1)
    but: str


class Loop(_Part):
    compressed: float
    words: float


class Salad(_Part):
    scripts: int


class Identical(_Part):
    least: int
    answers: int = Field(gt=1)


class Garbled(_Part):
    least: int = Field(gt=0)


class Degenerate(_Part):
    recent: int = Field(gt=0)
    alarm: int = Field(gt=0)
    run: Run
    loop: Loop
    salad: Salad
    identical: Identical
    garbled: Garbled


class Decision(_Part):
    """The whole file; its comments say where each number comes from."""

    version: int
    alpha: float = Field(gt=0, lt=1)
    budget: Budget
    pass_: PassTest = Field(alias="pass")
    logprob: LogprobTest
    bets: tuple[float, ...] = Field(min_length=1)
    stake: Stake
    recovery: Recovery
    degenerate: Degenerate


def read_decision(path: Path) -> Decision:
    """The decision in a file. Raises CanaryError naming the key."""
    try:
        decision = Decision.model_validate(load(text_of(path), str(path), CanaryError))
    except ValidationError as failure:
        first = failure.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise CanaryError(f"{key}: {first['msg']}", where=str(path)) from None
    budget = decision.budget
    shares = (budget.pass_, budget.steady, budget.logprob)
    if sum(share.overall + share.families for share in shares) > 1 + 1e-9:
        raise CanaryError("budget: the shares are more than 1 together", where=str(path))
    if not all(0 < bet < 1 for bet in decision.bets):
        raise CanaryError("bets: not between 0 and 1", where=str(path))
    return decision


@cache
def shipped_decision() -> Decision:
    """The one that comes with the program."""
    return read_decision(rules_path() / "canary" / DECISION)
