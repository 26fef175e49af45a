"""What compiled GPU code was compiled for, and on which GPUs the driver will load it.

Rules of CUDA's programming guide (compute capabilities, binary and PTX
compatibility) and of nvcc's manual (architecture- and family-specific targets).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from enginewatch.preflight.capability import Capability

_TARGET: Final = re.compile(r"(?:sm|compute)_(\d{1,2})(\d)([af]?)")


class Form(StrEnum):
    """What compiled code is."""

    SASS = "sass"
    """Machine code of one architecture."""
    PTX = "ptx"
    """Assembler that the driver compiles when it loads it, for its own GPU."""


class Target(NamedTuple):
    """`variant` is `a` (this capability alone), `f` (its family), empty, or `?` where the file
    does not say which of these."""

    form: Form
    capability: Capability
    variant: str = ""

    def __str__(self) -> str:
        prefix = "sm" if self.form is Form.SASS else "compute"
        return f"{prefix}_{self.capability.major}{self.capability.minor}{self.variant.strip('?')}"

    def loads_on(self, gpu: Capability, *, tegra: bool = False) -> bool | None:
        """Whether the driver of such a GPU takes this; None where that can't be said.

        `tegra`: the GPU is of a Jetson or Drive, which share no binaries with any other. A
        driver older than the toolkit may still refuse PTX of a newer version.
        """
        own = self.capability
        if own == gpu:
            return True
        if self.variant == "a" or (tegra and self.form is Form.SASS):
            return False
        family = own.major == gpu.major and own.minor <= gpu.minor
        if self.form is Form.SASS or self.variant == "f":
            return None if family and self.variant == "?" else family
        return own <= gpu


def target(number: int, form: Form, variant: str = "") -> Target:
    """Of a number as files have it: 90 is 9.0, 120 is 12.0."""
    return Target(form, Capability(*divmod(number, 10)), variant)


def parse_target(text: str) -> Target | None:
    """Of `sm_90a` or `compute_120`; None for what is none."""
    found = _TARGET.fullmatch(text)
    if found is None:
        return None
    form = Form.SASS if text.startswith("sm") else Form.PTX
    return Target(form, Capability(int(found[1]), int(found[2])), found[3])
