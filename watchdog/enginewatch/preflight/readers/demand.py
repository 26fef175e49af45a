"""What a deployment is to carry: `prompt=3000,decode=300,itl=50ms,batch=64,rate=2`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from enginewatch.preflight.errors import PreflightError
from enginewatch.yamltext import closest

_HINT: Final = "write it like prompt=3000,decode=300,itl=50ms,batch=64,rate=2"
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Tokens of a prompt (without what the prefix cache has) and of an answer, the inter-token
    latency that is wanted in seconds, how many requests run at once, and arrive a second.

    `quiet_s` is the latency of a step without any prompt, `prefill_s` the seconds that one prompt
    token adds to it: both measured, where they are known.
    """

    where: str
    prompt: int | None = None
    decode: int | None = None
    itl_s: float | None = None
    batch: int | None = None
    rate: float | None = None
    quiet_s: float | None = None
    prefill_s: float | None = None

    @property
    def length(self) -> int | None:
        """Tokens of a whole request; None without a prompt's."""
        return None if self.prompt is None else self.prompt + (self.decode or 0)


def combined(demands: Sequence[Demand]) -> Demand | None:
    """One that has of each value the first that is given: a recording, and the latency wanted."""
    if not demands:
        return None
    names = [each.name for each in fields(Demand) if each.name != "where"]
    values = {
        name: next((found for each in demands if (found := getattr(each, name)) is not None), None)
        for name in names
    }
    return Demand(where=", ".join(each.where for each in demands), **values)


def _tokens(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**8):
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> float:
    found = _TIME.fullmatch(text)
    if found is None or float(found[1]) <= 0:
        raise ValueError(text)
    return float(found[1]) / (1 if found[2] == "s" else 1000)


def _rate(text: str) -> float:
    number = float(text.removesuffix("/s"))
    if not (math.isfinite(number) and number > 0):
        raise ValueError(text)
    return number


_KEYS: Final[Mapping[str, tuple[str, Callable[[str], int | float]]]] = {
    "prompt": ("prompt", _tokens),
    "decode": ("decode", _tokens),
    "batch": ("batch", _tokens),
    "itl": ("itl_s", _seconds),
    "rate": ("rate", _rate),
    "quiet": ("quiet_s", _seconds),
    "prefill": ("prefill_s", _seconds),
}


def declared_demand(text: str) -> Demand:
    """Raises PreflightError for a key that is not known or a value that is none."""
    given: dict[str, int | float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in _KEYS:
            hint = closest(name, _KEYS)
            raise PreflightError(
                f"{name!r} says nothing of a workload", where="--workload", hint=hint
            )
        member, convert = _KEYS[name]
        try:
            given[member] = convert(value.strip())
        except ValueError:
            raise PreflightError(
                f"{name}: {value!r} is not understood", where="--workload", hint=_HINT
            ) from None
    return Demand(where=f"--workload {text}", **given)  # type: ignore[arg-type]
