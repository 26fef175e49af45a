"""One tensor-parallel rank: it takes the time of each step, in which it must meet all other ranks.

`python -m enginechaos.sim.rank FD RANK RANKS LINK ADDRESS ACTIVITY TITLE`. FD is the engine core's
socket. Commands on it are 24 bytes: number of the step, its seconds, how many collectives it has;
the answer is the number. Rank 0 listens for the others and is the root of every collective, as in a
star all-reduce; what delays a link delays each of them. Only the standard library: a rank must
start in no time.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import time
from typing import Final

from enginechaos.sim.activity import Activity
from enginechaos.sim.proctitle import set_title

COMMAND: Final = struct.Struct("!Qdd")
ANSWER: Final = struct.Struct("!Q")
READY: Final = 2**63
"""Number of the answer that tells of a rank that has met the others."""
_TOKEN: Final = b"\1"


def main(arguments: list[str]) -> int:
    descriptor, rank, ranks, link, address, activity, title = arguments
    core = socket.socket(fileno=int(descriptor))
    set_title(title)
    peers = _Peers(core, int(rank), int(ranks), link, address)
    core.sendall(ANSWER.pack(READY))
    with Activity(activity) as gpu, contextlib.suppress(ConnectionError, BrokenPipeError):
        while True:
            step, seconds, collectives = COMMAND.unpack(_read(core, COMMAND.size))
            share = seconds / collectives
            begun = time.monotonic()
            for part in range(1, int(collectives) + 1):
                left = begun + part * share - time.monotonic()
                if left > 0:
                    gpu.works(left)
                    time.sleep(left)
                gpu.waits()
                begun += peers.meet()
            gpu.rests()
            core.sendall(ANSWER.pack(step))
    if title.startswith("VLLM"):
        print(
            f"(Worker pid={os.getpid()}) INFO {time.strftime('%m-%d %H:%M:%S')} "
            "[multiproc_executor.py:843] "
            "Parent process exited, terminating worker queues",
            flush=True,
        )
    return 0


class _Peers:
    """The other ranks. `meet` returns when all have come to it."""

    def __init__(self, core: socket.socket, rank: int, ranks: int, link: str, address: str):
        family = socket.AF_INET if link == "tcp" else socket.AF_UNIX
        self._core = core
        self._root = rank == 0
        self._others: list[socket.socket] = []
        if ranks == 1:
            return
        if self._root:
            with socket.socket(family) as door:
                if link == "tcp":
                    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                door.bind(_tcp(address) if link == "tcp" else address)
                door.listen(ranks)
                core.sendall(ANSWER.pack(door.getsockname()[1] if link == "tcp" else 0))
                self._others = [door.accept()[0] for _ in range(ranks - 1)]
        else:
            (port,) = ANSWER.unpack(_read(core, ANSWER.size))
            root = socket.socket(family)
            root.connect(_tcp(address, port) if link == "tcp" else address)
            self._others = [root]
        if link == "tcp":
            for each in self._others:
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def meet(self) -> float:
        """Seconds that it took, which is how long this rank waited for the slowest.

        Where another has died it never ends, like a collective of NCCL; the core's end ends it
        (ConnectionError).
        """
        begun = time.monotonic()
        try:
            self._exchange()
        except ConnectionError:
            _read(self._core, 2**20)
        return time.monotonic() - begun

    def _exchange(self) -> None:
        if self._root:
            for other in self._others:
                _read(other, 1)
            for other in self._others:
                other.sendall(_TOKEN)
        else:
            self._others[0].sendall(_TOKEN)
            _read(self._others[0], 1)


def _tcp(address: str, told: int = 0) -> tuple[str, int]:
    """Of `host:port`; the port that was told where it names none."""
    host, _, port = address.rpartition(":")
    return host, int(port) or told


def _read(source: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes. Raises ConnectionError at the end of the stream."""
    found = b""
    while len(found) < size:
        part = source.recv(size - len(found))
        if not part:
            raise ConnectionError("the other end is gone")
        found += part
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
