"""How a numeric format hurts answers: `damage.yml`, and dice."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import yaml

from enginechaos.sim.errors import SimError

_DATA: Final = "damage.yml"


@dataclass(frozen=True)
class Harm:
    """To one answer: the chance that it is wrong, nats added to each token's log-probability."""

    wrong: float = 0.0
    logprob: float = 0.0
    from_batch: int = 1

    def at(self, batch: int) -> Harm:
        """In a step that so many sequences share."""
        return self if batch >= self.from_batch else Harm()


@dataclass(frozen=True)
class Damage:
    """Of one format, by operation or family of task."""

    default: Harm
    families: dict[str, Harm]

    def of(self, family: str, operation: str = "") -> Harm:
        """Of an operation where the format tells of it, else of a family, else of anything."""
        return self.families.get(operation) or self.families.get(family) or self.default


def load(name: str) -> Damage:
    """A format's row. Raises SimError for a format that `damage.yml` does not know."""
    text = (resources.files("enginechaos.sim") / _DATA).read_text("utf-8")
    formats: dict[str, dict[str, Any]] = yaml.safe_load(text)["formats"]
    if name not in formats:
        raise SimError(
            f"no format {name!r}", where=_DATA, hint=f"known: {', '.join(sorted(formats))}"
        )
    row = formats[name]
    families = {family: _harm(harm) for family, harm in (row.get("families") or {}).items()}
    return Damage(_harm(row["default"]), families)


def _harm(row: dict[str, Any]) -> Harm:
    """YAML takes `-1e-06` for a text."""
    return Harm(float(row["wrong"]), float(row["logprob"]), int(row.get("from_batch", 1)))
