"""The simulated GPUs: one JSON file that NVML's stand-in reads, and in which processes claim
memory.

`enginewatch.nvml.simulation` documents the file; what it does not know it passes over, and so does
this module: whatever else stands in it (`hang`, `events`, `lost`) is kept. A claim is an entry of
`processes`; those of dead processes count for nothing. Writers hold a lock beside the file, and
replace it whole.

`python -m enginechaos.sim.gpu FILE --gib N` claims memory until it is ended: a second process on
the GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from enginechaos.processes import GONE, stat
from enginechaos.sim.errors import SimError
from enginechaos.sim.memory import GIB

RESERVED: Final = 644_939_776
"""Bytes that the driver of an H200 keeps for itself, as read from one."""


@dataclass(frozen=True)
class GpuFile:
    path: Path

    @contextlib.contextmanager
    def edit(self) -> Iterator[dict[str, Any]]:
        """What stands in the file, to be changed; nobody else writes meanwhile. Raises SimError."""
        lock = self.path.with_name(self.path.name + ".lock")
        try:
            with lock.open("a") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                found = self._read()
                yield found
                text = json.dumps(found)
                new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
                new.write_text(text, "utf-8")
                new.replace(self.path)
        except OSError as failure:
            raise SimError(
                f"can't be written: {failure.strerror}", where=str(self.path)
            ) from failure

    def prepare(self, gpus: int, total: int, name: str, capability: Sequence[int]) -> None:
        """There are `gpus` of these at least; those that the file has already are left as they
        are."""
        with self.edit() as found:
            known = found.setdefault("gpus", [])
            for index in range(len(known), gpus):
                known.append(
                    {
                        "uuid": f"GPU-5eed0000-0000-4000-8000-{index:012d}",
                        "name": name,
                        "capability": list(capability),
                        "bus_id": f"00000000:{index + 6:02X}:00.0",
                        "memory": {"total": total + RESERVED, "reserved": RESERVED, "used": 0},
                        "processes": [],
                    }
                )

    def claim(self, gpu: int, pid: int, size: int) -> int | None:
        """Let `pid` hold `size` bytes in all; where that is more than there is, nothing changes.

        What is left for others then, None for refused; see `free` for how much there was.
        """
        with self.edit() as found:
            card = self._card(found, gpu)
            others = [each for each in _living(card) if each["pid"] != pid]
            left = _room(card) - sum(each["memory"] for each in others) - size
            if left < 0:
                return None
            card["processes"] = [*others, {"pid": pid, "memory": size}] if size else others
            card["memory"]["used"] = sum(each["memory"] for each in card["processes"])
            return int(left)

    def free(self, gpu: int) -> int:
        """Bytes that nobody claims."""
        with self.edit() as found:
            card = self._card(found, gpu)
            return int(_room(card) - sum(each["memory"] for each in _living(card)))

    def release(self, pid: int) -> None:
        """All that `pid` holds, and what dead processes left behind."""
        with self.edit() as found:
            for card in found.get("gpus", ()):
                card["processes"] = [each for each in _living(card) if each["pid"] != pid]
                card["memory"]["used"] = sum(each["memory"] for each in card["processes"])

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as failure:
            raise SimError(f"is not JSON: {failure}", where=str(self.path)) from failure
        if not isinstance(found, dict):
            raise SimError("is not a JSON object", where=str(self.path))
        return found

    def _card(self, found: dict[str, Any], gpu: int) -> dict[str, Any]:
        try:
            card: dict[str, Any] = found["gpus"][gpu]
        except (KeyError, IndexError) as failure:
            raise SimError(f"has no GPU {gpu}", where=str(self.path)) from failure
        card.setdefault("memory", {"total": 140 * GIB, "reserved": RESERVED, "used": 0})
        card.setdefault("processes", [])
        return card


def _room(card: dict[str, Any]) -> int:
    memory = card["memory"]
    return int(memory["total"]) - int(memory.get("reserved", 0))


def _living(card: dict[str, Any]) -> list[dict[str, Any]]:
    held: list[dict[str, Any]] = card.get("processes") or []
    return [each for each in held if _alive(int(each["pid"]))]


def _alive(pid: int) -> bool:
    found = stat(pid)
    return found is not None and found.state not in GONE


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m enginechaos.sim.gpu", description=__doc__)
    parser.add_argument("file", type=Path, help="the engine's gpu_file")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--gib", type=float, help="how much to claim")
    parser.add_argument("--leave-gib", type=float, help="claim all but this much instead")
    given = parser.parse_args(arguments)
    gpu = GpuFile(given.file)
    try:
        free = gpu.free(given.gpu)
        size = (
            int(given.gib * GIB)
            if given.gib is not None
            else free - int((given.leave_gib or 0) * GIB)
        )
        left = gpu.claim(given.gpu, os.getpid(), max(size, 0))
    except SimError as failure:
        print(failure, file=sys.stderr)
        return 2
    if left is None:
        print(
            f"GPU {given.gpu} has {free / GIB:.2f} GiB free, not {size / GIB:.2f}", file=sys.stderr
        )
        return 1
    print(f"holding {size / GIB:.2f} GiB of GPU {given.gpu}, {left / GIB:.2f} GiB left", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    gpu.release(os.getpid())
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main())
