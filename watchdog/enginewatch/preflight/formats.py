"""Which runtime runs which number format on which GPU: `rules/compat/formats.yml`."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from enginewatch.evidence.tables import load_table
from enginewatch.model import compile_re2
from enginewatch.preflight.capability import Capability, capability_of
from enginewatch.preflight.readers.quantization import Quantization
from enginewatch.rulepack import rules_path

RUNTIMES: Final = ("trtllm", "vllm", "sglang")

_RANGE: Final = re.compile(r"(\d{1,2}\.\d)(?:(\+)|-(\d{1,2}\.\d))?")


class Support(IntEnum):
    """How well, best last; the columns of the table say what each means."""

    NONE = 0
    EMULATED = 1
    PARTIAL = 2
    NATIVE = 3


class Format(NamedTuple):
    """A row: `native`, `partial` and `emulated` say whether a capability is among theirs."""

    name: str
    runtime: str
    match: Any
    native: Callable[[Capability], bool]
    partial: Callable[[Capability], bool]
    emulated: Callable[[Capability], bool]

    def support(self, gpu: Capability) -> Support:
        """The best that applies to a GPU of this compute capability."""
        if self.native(gpu):
            return Support.NATIVE
        if self.partial(gpu):
            return Support.PARTIAL
        return Support.EMULATED if self.emulated(gpu) else Support.NONE


def format_of(written: str, runtime: str) -> Format | None:
    """The row for what a checkpoint writes; None where the table knows no such format."""
    plain = written.strip().lower()
    rows = (row for row in shipped_formats() if row.runtime == runtime)
    return next((row for row in rows if row.match.search(plain)), None)


def written_format(quantization: Quantization) -> str:
    """A quantization in the words of the table's `match`."""
    if quantization.method == "fp8" and quantization.block:
        return "fp8 block"
    if quantization.format in ("", "dense", "mixed-precision"):
        bits = f" {quantization.bits}" if quantization.bits is not None else ""
        return f"{quantization.method}{bits}" if quantization.method != "fp8" else "fp8"
    if quantization.format.startswith("float-quantized") and quantization.group_size:
        return "fp8 block"
    return quantization.format


@cache
def shipped_formats() -> tuple[Format, ...]:
    """Those of the pack. Raises as `load_formats` does."""
    return load_formats(rules_path())


def load_formats(root: Path) -> tuple[Format, ...]:
    """Raises SignatureError with every problem of the table, ValueError for a capability."""
    table = load_table(root / "compat" / "formats.yml")
    return tuple(
        Format(
            name=str(row["format"]),
            runtime=str(row["runtime"]),
            match=compile_re2(str(row["match"])),
            native=_capabilities(str(row.get("native", ""))),
            partial=_capabilities(str(row.get("partial", ""))),
            emulated=_capabilities(str(row.get("emulated", ""))),
        )
        for row in table.rows.values()
    )


def _capabilities(text: str) -> Callable[[Capability], bool]:
    """Whether one is in `8.0-8.9 10.0+`. Raises ValueError."""
    ranges = []
    for part in text.split():
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} is no range of compute capabilities")
        first = capability_of(found[1])
        last = Capability(99, 9) if found[2] else capability_of(found[3] or found[1])
        ranges.append((first, last))

    def among(gpu: Capability) -> bool:
        return any(first <= gpu <= last for first, last in ranges)

    return among
