"""`python -m enginechaos.sim --config sim.yml`: start a simulated engine."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from enginechaos.sim.errors import SimError
from enginechaos.sim.settings import Settings, load


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m enginechaos.sim", description=__doc__)
    parser.add_argument("--config", type=Path, help="sim.yml; all keys have defaults")
    parser.add_argument("--port", type=int, help="wins over the file's")
    given = parser.parse_args(arguments)
    try:
        settings = load(given.config, port=given.port) if given.config else Settings()
        if given.port is None:
            _name_port(settings.port)
        return _serve(settings)
    except SimError as failure:
        print(f"enginechaos.sim: {failure}", file=sys.stderr)
        return 2


def _name_port(port: int) -> None:
    """Start over with the port on the command line: a watchdog tells from it whose the ranks
    are."""
    sys.stdout.flush()
    command = [sys.executable, "-m", "enginechaos.sim", *sys.argv[1:], "--port", str(port)]
    os.execv(sys.executable, command)  # noqa: S606


def _serve(settings: Settings) -> int:
    # Late: what a wrong setting needs is its message, and not a web server.
    from enginechaos.sim.serve import Serve  # noqa: PLC0415

    url = f"http://{settings.host}:{settings.port}"
    console = os.dup(1)
    if settings.log_file is not None:
        log = os.open(settings.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)

    def ready() -> None:
        os.write(console, f"ready: {settings.dialect} on {url}, pid {os.getpid()}\n".encode())

    return asyncio.run(Serve(settings, ready).run())


if __name__ == "__main__":
    sys.exit(main())
