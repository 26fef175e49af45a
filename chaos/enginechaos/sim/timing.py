"""How long a step takes: a sum of its tokens and of the context they attend to, constants from
`timing.yml`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Final, Self

import yaml

from enginechaos.sim.errors import SimError
from enginechaos.sim.scheduler import Share

_DATA: Final = "timing.yml"


@dataclass(frozen=True)
class Timing:
    """Seconds: a step, a token in it, a token attending to one token of context."""

    step: float
    token: float
    attention: float

    @classmethod
    def load(cls, profile: str | None = None) -> Self:
        """A profile of `timing.yml`, the first where none is named. Raises SimError."""
        text = (resources.files("enginechaos.sim") / _DATA).read_text("utf-8")
        profiles = yaml.safe_load(text)["profiles"]
        name = profile or next(iter(profiles))
        if name not in profiles:
            raise SimError(
                f"no timing profile {name!r}", where=_DATA, hint=f"known: {', '.join(profiles)}"
            )
        return cls(**{key: float(value) for key, value in profiles[name].items()})

    def seconds(self, shares: Iterable[Share]) -> float:
        """Of a step with these shares, on all its ranks together."""
        total = self.step
        for share in shares:
            context = share.context + share.tokens / 2
            total += share.tokens * (self.token + self.attention * context)
        return total
