"""NCCL's own account of a job: a client of its RAS socket (NCCL 2.24 and newer).

    python -m chaos.gpu.ras [--address localhost:28028] [--timeout 10]

One line of text goes there, the report comes back, and the server closes the connection
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html). The report is
for people, so it is kept as it is.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time

DEFAULT = ("localhost", 28028)
_MOST = 1 << 20


def report(address: tuple[str, int] = DEFAULT, timeout: float = 10.0) -> str:
    """The whole verbose report; what had come of it where it is cut off by `timeout` seconds.

    Raises OSError where nobody listens: an older NCCL, NCCL_RAS_ENABLE=0, or no communicator yet.
    A rank that does not answer costs NCCL itself five seconds.
    """
    ends = time.monotonic() + timeout
    parts: list[bytes] = []
    with socket.create_connection(address, timeout) as connection:
        connection.sendall(b"verbose status\n")
        while (left := ends - time.monotonic()) > 0 and sum(map(len, parts)) < _MOST:
            connection.settimeout(left)
            try:
                part = connection.recv(1 << 16)
            except TimeoutError:
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts).decode(errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m chaos.gpu.ras", description=__doc__)
    parser.add_argument("--address", default="localhost:28028")
    parser.add_argument("--timeout", type=float, default=10.0)
    given = parser.parse_args()
    host, _, port = given.address.rpartition(":")
    try:
        sys.stdout.write(report((host, int(port)), given.timeout))
    except (OSError, ValueError) as failure:
        sys.exit(f"{given.address}: {failure}")


if __name__ == "__main__":
    main()
