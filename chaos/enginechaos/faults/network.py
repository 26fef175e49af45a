"""A slow link between two ranks: network namespaces of the suite's own, and packets that wait.

Linux only, as root, with iproute2. Packets wait in netem where the kernel has it (`modprobe
sch_netem`). Elsewhere a token bucket lets one packet of a collective pass in as long: a link that
is slow because it is narrow.
"""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from enginechaos.actions import Action, Command
from enginechaos.actors import Local
from enginechaos.errors import TargetError
from enginechaos.faults.base import Evidence, Fault
from enginechaos.target import Target

T = TypeVar("T")

_NAMESPACES: Final = Path("/run/netns")
_ADDRESSES: Final = ("10.231.77.1", "10.231.77.2")
"""Seen inside the namespaces only, so nobody else's."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
"""For setns(2), which Python has from 3.12 on."""
_CLONE_NEWNET: Final = 0x40000000
_DEVICE: Final = "ranks"
_PORT: Final = 7
_PACKET: Final = 67
"""Bytes on the wire of a collective's packet: one byte of TCP, with its headers."""
_QUEUE: Final = 100_000
"""Bytes that wait at most: a queue that overflows would lose packets too."""


class RankLink:
    """Two namespaces and a cable between them: rank 0 lives in the first, rank 1 in the second.

    `add` makes them; `undo` is to be written down before.
    """

    def __init__(self, name: str = f"enginechaos-{os.getpid()}"):
        self.namespaces: Final = (f"{name}-0", f"{name}-1")

    def undo(self) -> list[Action]:
        gone = "No such file or directory"
        return [Command(("ip", "netns", "del", each), absent=gone) for each in self.namespaces]

    def add(self) -> None:
        """Raises TargetError."""
        left, right = self.namespaces
        for each in self.namespaces:
            _run("ip", "netns", "add", each)
        _run(
            *("ip", "link", "add", _DEVICE, "netns", left, "type", "veth"),
            *("peer", "name", _DEVICE, "netns", right),
        )
        for each, address in zip(self.namespaces, _ADDRESSES, strict=True):
            _run("ip", "-n", each, "addr", "add", f"{address}/30", "dev", _DEVICE)
            _run("ip", "-n", each, "link", "set", _DEVICE, "up")

    def ranks(self) -> dict[str, Any]:
        """The section `ranks` of a simulated engine whose two ranks meet over this link."""
        launch = [["ip", "netns", "exec", each] for each in self.namespaces]
        return {"link": "tcp", "listen": f"{_ADDRESSES[0]}:0", "launch": launch}

    def round_trip(self, within: float) -> float:
        """Seconds for a packet of our own from rank 1's side and back; infinite after `within`.

        Raises TargetError where the namespaces can't be entered.
        """
        left, right = self.namespaces
        with _inside(left, _datagrams) as far, _inside(right, _datagrams) as near:
            far.bind((_ADDRESSES[0], _PORT))
            far.settimeout(within)
            near.settimeout(within)
            begun = time.monotonic()
            near.sendto(b"?", (_ADDRESSES[0], _PORT))
            try:
                _, sender = far.recvfrom(1)
                far.sendto(b"!", sender)
                near.recv(1)
            except TimeoutError:
                return math.inf
            return time.monotonic() - begun


@dataclass
class SlowLink(Fault):
    """What rank 1 sends to rank 0 waits for `delay` seconds.

    The evidence is the round trip of a packet of our own: half the delay at least.
    """

    link: RankLink
    delay: float
    verify_within: ClassVar[float] = 30.0

    def blast_radius(self, target: Target) -> str:
        return (
            f"each step of {target.deployment} takes {self.delay:g} s longer, or more; the link "
            "is in namespaces of the suite's own, no other traffic is touched"
        )

    def undo(self, target: Target) -> Sequence[Action]:
        namespace = self.link.namespaces[1]
        tc = f"tc -n {namespace} qdisc"
        # Done is when nothing waits there, whether or not there was something to delete.
        check = f"! {tc} show dev {_DEVICE} 2>/dev/null | grep -Eq 'netem|tbf'"
        return [Command(("sh", "-c", f"{tc} del dev {_DEVICE} root 2>/dev/null; {check}"))]

    def inject(self, target: Target) -> None:
        start = ("tc", "-n", self.link.namespaces[1], "qdisc", "add", "dev", _DEVICE, "root")
        done = Local().run([*start, *netem(self.delay)])
        if done.code and "qdisc kind is unknown" in done.errors:
            done = Local().run([*start, *narrow(self.delay)])
        if done.code:
            raise TargetError(f"tc: {done.errors.strip()[:300]}", where=self.link.namespaces[1])

    def verify(self, target: Target) -> Evidence:
        took = self.link.round_trip(max(self.delay * 0.6, 0.5))
        said = "does not come back" if math.isinf(took) else f"takes {took * 1000:.1f} ms"
        return Evidence(took >= self.delay / 2, f"a round trip of our own {said}")


def netem(delay: float) -> list[str]:
    """Words for tc: each packet waits `delay` seconds (tc-netem(8))."""
    return ["netem", "delay", f"{delay * 1000:g}ms", "limit", "10000"]


def narrow(delay: float) -> list[str]:
    """Words for tc: a packet of a collective takes `delay` seconds to pass (tc-tbf(8))."""
    rate = max(round(_PACKET * 8 / delay), 8)
    return ["tbf", "rate", f"{rate}bit", "burst", f"{_PACKET + 33}", "limit", str(_QUEUE)]


def missing() -> str:
    """What keeps this machine from having such links, in words that help; nothing if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root: run this test as root (the others need none)"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "network namespaces need ip and tc: install iproute2"
    probe = RankLink(f"enginechaos-{os.getpid()}-probe")
    try:
        probe.add()
    except TargetError as failure:
        return f"network namespaces can't be made here: {failure}"
    finally:
        for action in probe.undo():
            action.do()
    return ""


def _run(*argv: str) -> None:
    done = Local().run(argv)
    if done.code:
        raise TargetError(done.errors.strip()[:300], where=" ".join(argv))


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _inside(namespace: str, work: Callable[[], T]) -> T:
    """What `work` gives in a thread that has entered the namespace: its sockets stay there."""
    found: list[T] = []
    wrong: list[OSError] = []

    def enter() -> None:
        try:
            handle = os.open(_NAMESPACES / namespace, os.O_RDONLY)
            try:
                if _LIBC.setns(handle, _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            finally:
                os.close(handle)
            found.append(work())
        except OSError as failure:
            wrong.append(failure)

    thread = threading.Thread(target=enter, name=f"in {namespace}")
    thread.start()
    thread.join()
    if wrong:
        raise TargetError(f"can't be entered: {wrong[0].strerror}", where=namespace)
    return found[0]
