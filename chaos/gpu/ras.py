"""NCCL's own account of a job: a client of its RAS socket (NCCL 2.24 and newer).

    python -m chaos.gpu.ras [--address localhost:28028] [--timeout 10] [--json]

Lines of text go there, the report comes back, and the server closes the connection
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html). It is kept as
it comes, byte for byte: what NCCL says of a job that fails is a finding of the experiment.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time

DEFAULT = ("localhost", 28028)
_MOST = 1 << 20
_GREETING = 1.0
"""Seconds for the first word. All processes of a job share the port, and one that is stopped
accepts and says nothing: then another connection is made."""


def report(
    address: tuple[str, int] = DEFAULT, timeout: float = 10.0, *, settings: tuple[str, ...] = ()
) -> str:
    """The whole verbose report, and what each of `settings` was answered; what had come of it
    where it is cut off by `timeout` seconds.

    Raises OSError where nobody listens: an older NCCL, NCCL_RAS_ENABLE=0, or no communicator yet.
    A rank that does not answer costs NCCL itself five seconds.
    """
    ends = time.monotonic() + timeout
    lines = "".join(f"{line}\n" for line in (*settings, "VERBOSE STATUS"))
    while time.monotonic() < ends:
        with socket.create_connection(address, timeout) as connection:
            connection.sendall(b"CLIENT PROTOCOL 2\n")
            connection.settimeout(_GREETING)
            try:
                hello = connection.recv(1 << 12)
            except TimeoutError:
                continue
            connection.sendall(lines.encode())
            return (hello.partition(b"\n")[2] + _rest(connection, ends)).decode(errors="replace")
    return ""


def _rest(connection: socket.socket, ends: float) -> bytes:
    parts: list[bytes] = []
    while (left := ends - time.monotonic()) > 0 and sum(map(len, parts)) < _MOST:
        connection.settimeout(left)
        try:
            part = connection.recv(1 << 16)
        except TimeoutError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


JSON = ("SET FORMAT json",)
"""Since NCCL 2.28.7; an older one says that it knows no such command, and reports in text."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m chaos.gpu.ras", description=__doc__)
    parser.add_argument("--address", default="localhost:28028")
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    host, _, port = given.address.rpartition(":")
    try:
        settings = JSON if given.json else ()
        sys.stdout.write(report((host, int(port)), given.timeout, settings=settings))
    except (OSError, ValueError) as failure:
        sys.exit(f"{given.address}: {failure}")


if __name__ == "__main__":
    main()
