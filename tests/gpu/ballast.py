"""A process that holds a GPU as an engine does: told by lines on standard input what to do.

`leave FRACTION` allocates all but that part of the memory. `fill BYTES SECONDS` allocates
so much every so many seconds until memory is out, and leaves the traceback in its log as
an engine would. `matmul` works, `wait` runs a
kernel that only waits, `idle` does nothing, `free` lets go of all memory, `fault` reads
where nothing is and dies of it. Answers are JSON lines on standard output.

With `--pretend FILE` there is no GPU: a simulated driver's file is changed instead.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import select
import sys
import time
from pathlib import Path
from typing import Any, Protocol

log = logging.getLogger("ballast")

_SIDE = 8192
_WAIT_CYCLES = 200_000_000
_PRETENDED = 150_000_000_000
"""Bytes of a GPU that is not there."""


class Device(Protocol):
    """What the ballast does to a GPU. `allocate` raises RuntimeError when memory is out."""

    def memory(self) -> tuple[int, int]:
        """Free and all, in bytes."""
        ...

    def allocate(self, size: int) -> None: ...
    def free(self) -> None: ...
    def matmul(self) -> None: ...
    def wait(self) -> None: ...
    def fault(self) -> None: ...


class Cuda:
    """The first GPU, through PyTorch."""

    def __init__(self) -> None:
        import torch  # type: ignore[import-not-found]

        self._torch: Any = torch
        self._held: list[Any] = []
        self._a: Any = None
        torch.zeros(1, device="cuda")

    def memory(self) -> tuple[int, int]:
        free, total = self._torch.cuda.mem_get_info()
        return free, total

    def allocate(self, size: int) -> None:
        self._held.append(self._torch.empty(size, dtype=self._torch.uint8, device="cuda"))
        self._held[-1].fill_(1)
        self._torch.cuda.synchronize()

    def free(self) -> None:
        self._held.clear()
        self._a = None
        self._torch.cuda.empty_cache()

    def matmul(self) -> None:
        if self._a is None:
            self._a = self._torch.randn(_SIDE, _SIDE, device="cuda", dtype=self._torch.bfloat16)
        for _ in range(20):
            self._a @ self._a
        self._torch.cuda.synchronize()

    def wait(self) -> None:
        self._torch.cuda._sleep(_WAIT_CYCLES)
        self._torch.cuda.synchronize()

    def fault(self) -> None:
        import cupy  # type: ignore[import-not-found]

        code = 'extern "C" __global__ void f() { *(volatile int*)16 = 1; }'
        cupy.RawKernel(code, "f")((1,), (1,), ())
        cupy.cuda.runtime.deviceSynchronize()


class Pretended:
    """GPU 0 of a simulated driver's file."""

    def __init__(self, script: Path):
        self._script = script
        self._used = 0

    def memory(self) -> tuple[int, int]:
        return _PRETENDED - self._used, _PRETENDED

    def allocate(self, size: int) -> None:
        free, total = self.memory()
        if size > free:
            raise RuntimeError(
                f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB. GPU 0 has a total "
                f"capacity of {total / 2**30:.2f} GiB of which {free / 2**30:.2f} GiB is free."
            )
        self._used += size
        self._write(memory={"total": total, "used": self._used, "reserved": 0})

    def free(self) -> None:
        self._used = 0
        self._write(memory={"total": _PRETENDED, "used": 0, "reserved": 0})

    def matmul(self) -> None:
        self._write(utilization={"gpu": 100, "memory": 50}, power=650_000)
        time.sleep(0.2)

    def wait(self) -> None:
        self._write(utilization={"gpu": 100, "memory": 0}, power=150_000)
        time.sleep(0.2)

    def fault(self) -> None:
        self._write(events=[{"id": 1, "gpu": 0, "xid": 31}])
        sys.exit("illegal memory access")

    def _write(self, events: Any = None, **changes: Any) -> None:
        tree = json.loads(self._script.read_text())
        tree["gpus"][0].update(changes)
        tree["gpus"][0]["processes"] = [{"pid": os.getpid(), "memory": self._used}]
        if events:
            tree["events"] = events
        new = self._script.with_suffix(".ballast")
        new.write_text(json.dumps(tree))
        new.replace(self._script)


def answer(**what: Any) -> None:
    print(json.dumps({"at": time.time(), **what}), flush=True)


def fill(device: Device, size: int, pace: float) -> None:
    held = 0
    while True:
        try:
            device.allocate(size)
        except RuntimeError as failure:
            log.exception("engine core: the step failed")
            answer(oom=str(failure), held=held)
            return
        held += size
        answer(held=held)
        time.sleep(pace)


def serve(device: Device) -> None:
    doing = "idle"
    # Without a buffer, or a second line would lie in it unseen by select.
    orders: Any = sys.stdin.buffer.raw  # type: ignore[union-attr]
    answer(ready=True)
    while True:
        readable, _, _ = select.select([orders], [], [], 0.2 if doing == "idle" else 0)
        if readable:
            words = orders.readline().decode().split()
            if not words:
                return
            doing = words[0]
            if doing == "fill":
                fill(device, int(words[1]), float(words[2]))
                doing = "idle"
            elif doing == "leave":
                free, total = device.memory()
                device.allocate(free - int(total * float(words[1])))
                answer(left=device.memory()[0])
                doing = "idle"
        if doing == "free":
            device.free()
            answer(held=0)
            doing = "idle"
        elif doing in ("matmul", "wait", "fault"):
            getattr(device, doing)()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="what this process is told by, gpu-check-rank=N")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--pretend", type=Path)
    given = parser.parse_args()
    logging.basicConfig(
        filename=given.log, format="%(levelname)s %(asctime)s [%(name)s] %(message)s"
    )
    serve(Cuda() if given.pretend is None else Pretended(given.pretend))


if __name__ == "__main__":
    main()
