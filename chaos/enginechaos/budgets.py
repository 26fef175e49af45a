"""How long detection, delivery and resolution may take: data, in `suite/budgets.yml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class Budget:
    """Seconds; see `suite/budgets.yml` for what each is measured between."""

    detect: float
    deliver: float
    resolve: float
    before: str = ""
    answers: int | None = None

    def as_json(self) -> dict[str, Any]:
        whole = {
            "detect": self.detect,
            "deliver": self.deliver,
            "resolve": self.resolve,
            "before": self.before,
            "answers": self.answers,
        }
        return {key: value for key, value in whole.items() if value not in ("", None)}


@dataclass(frozen=True)
class Budgets:
    defaults: Mapping[str, Any]
    hazards: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, verdict: str, **given: float | None) -> Budget:
        """Of a hazard; what is `given` and not None holds instead."""
        own = {key: value for key, value in given.items() if value is not None}
        return Budget(**{**self.defaults, **self.hazards.get(verdict, {}), **own})

    def over(self, more: Mapping[str, Mapping[Any, float]]) -> Budgets:
        """With a target's own figures, `{verdict: {detect: 30}}`."""
        merged = {v: {**self.hazards.get(v, {}), **more.get(v, {})} for v in {*self.hazards, *more}}
        return Budgets(self.defaults, merged)


def shipped() -> Budgets:
    """Those of the suite."""
    text = resources.files("enginechaos").joinpath("suite/budgets.yml").read_text("utf-8")
    found = yaml.safe_load(text)
    return Budgets(found["defaults"], found["hazards"])
