"""A link between ranks that stands still: no process is stopped, and no packet arrives.

The ranks of a simulated engine meet through a relay in the suite's own process, which keeps what it
should pass on. It needs no root, unlike `network`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import httpx

from enginechaos.actions import Action, EndsWithRun
from enginechaos.embedded import free_port
from enginechaos.faults.base import Evidence, Fault
from enginechaos.load import Load
from enginechaos.target import Target

_HOST: Final = "127.0.0.1"
_LARGEST: Final = 65_536


class RankRelay:
    """Passes on what ranks tell each other, inside a `with` block; `hold` and `release` it."""

    def __init__(self) -> None:
        self._open: Final = threading.Event()
        self._open.set()
        self._rank0: Final = (_HOST, free_port())
        self._door: socket.socket | None = None
        self._ends: list[socket.socket] = []
        self._kept: Final[list[bytes]] = []

    def __enter__(self) -> Self:
        self._door = socket.create_server((_HOST, 0))
        threading.Thread(
            target=self._serve, args=(self._door,), name="rank-relay", daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        for each in filter(None, (self._door, *self._ends)):
            # A thread that waits in a socket wakes up by its shutdown, not by its close.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def ranks(self) -> dict[str, Any]:
        """The section `ranks` of a simulated engine whose ranks meet through this relay."""
        if self._door is None:
            raise ValueError("the relay was not entered")
        listen, through = self._rank0, self._door.getsockname()
        return {
            "link": "tcp",
            "listen": f"{listen[0]}:{listen[1]}",
            "through": f"{through[0]}:{through[1]}",
        }

    @property
    def waiting(self) -> int:
        """Bytes that are kept back."""
        return sum(map(len, list(self._kept)))

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def _serve(self, door: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = door.accept()
                far = socket.create_connection(self._rank0)
                self._ends += [near, far]
                for source, to in ((near, far), (far, near)):
                    to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._pass_on, args=(source, to), daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while found := source.recv(_LARGEST):
                if not self._open.is_set():
                    self._kept.append(found)
                    self._open.wait()
                    self._kept.remove(found)
                to.sendall(found)
        for each in (source, to):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@dataclass
class StalledLink(Fault):
    """No rank hears of another any more.

    The evidence is that packets wait in the relay and no client gets a token, while /health says
    200: no look at processes would show it.
    """

    relay: RankRelay
    load: Load
    quiet: float = 4.0
    verify_within: ClassVar[float] = 20.0

    def undo(self, target: Target) -> Sequence[Action]:
        return [EndsWithRun("the suite's own relay between ranks")]

    def inject(self, target: Target) -> None:
        self.relay.hold()

    def verify(self, target: Target) -> Evidence:
        health = httpx.get(f"{target.url}/health", timeout=3, trust_env=False).status_code
        tokens = self.load.figures(self.quiet).tokens
        waiting = self.relay.waiting
        return Evidence(
            bool(waiting) and health == httpx.codes.OK and not tokens,
            f"{waiting} bytes wait between ranks, {tokens} tokens in {self.quiet:g} s, "
            f"/health answers {health}",
        )

    def retract(self, target: Target) -> None:
        self.relay.release()
