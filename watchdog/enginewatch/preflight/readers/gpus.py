"""The GPUs of a target: declared as `8xB200`, or read from the driver of this machine."""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.readers.unread import Unread

_DECLARED: Final = re.compile(r"(?:(\d{1,5})\s*[xX*]\s*)?([A-Za-z][\w .+/-]*)")
_HINT: Final = "write it like 8xB200, H200 or 2xRTX-5090"


@dataclass(frozen=True, slots=True)
class Gpus:
    """`count` GPUs of one model. `capability` is major and minor, `memory` bytes of one GPU;
    None where only the name is known (`rules/compat/capabilities.yml` may know more)."""

    model: str
    count: int
    where: str
    capability: tuple[int, int] | None = None
    memory: int | None = None
    driver: str = ""


def declared_gpus(text: str) -> Gpus:
    """`8xB200`; without a number, one. Raises PreflightError."""
    found = _DECLARED.fullmatch(text.strip())
    if found is None or int(found[1] or 1) == 0:
        what = f"{text!r} does not say how many of which GPU"
        raise PreflightError(what, where="--gpus", hint=_HINT)
    return Gpus(found[2].strip(), int(found[1] or 1), f"--gpus {text}")


class Here(NamedTuple):
    """What the driver of this machine told, or why it did not."""

    gpus: tuple[Gpus, ...] = ()
    unread: tuple[Unread, ...] = ()


def driver_gpus(nvml: Any, wait: float = 10.0) -> Here:
    """The GPUs of this machine; none, and no complaint, where there is no driver.

    `nvml` is the module `pynvml`, or a simulation of it. A driver that does not answer
    within `wait` seconds is left to itself.
    """
    found: list[Here] = []
    thread = threading.Thread(target=lambda: found.append(_asked(nvml)), daemon=True)
    thread.start()
    thread.join(wait)
    if found:
        return found[0]
    return Here(unread=(Unread("NVML", f"the driver gave no answer within {wait:g} s"),))


def _asked(nvml: Any) -> Here:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return Here()
    try:
        handles = [
            nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())
        ]
        driver = nvml.nvmlSystemGetDriverVersion()
        kinds = Counter(
            (
                nvml.nvmlDeviceGetName(handle),
                tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
                int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            )
            for handle in handles
        )
    except nvml.NVMLError as failure:
        return Here(unread=(Unread("NVML", f"the driver does not tell its GPUs: {failure}"),))
    return Here(
        tuple(
            Gpus(name, count, "NVML", capability=capability, memory=memory, driver=driver)
            for (name, capability, memory), count in kinds.items()
        )
    )
