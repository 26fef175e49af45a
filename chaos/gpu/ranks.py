"""One rank of a group that computes and all-reduces in a loop, as a tensor-parallel engine does.

    python -m chaos.gpu.ranks --rank 0 --world 2 --backend gloo --device cpu --store 29500 \
        --port 18000 --folder DIR

Rank 0 also serves what an engine serves (`page.py`). In the folder it keeps `rank0.json`: the last
step, when it ended, and how long the slowest of the last ten seconds took. A file `busy.0` or
`hold.0` there, holding a number of seconds, makes it wait in a busy loop once, or put a kernel that
only waits before its next collective.
What goes wrong is told on standard error as PyTorch tells it, and ends the rank.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from chaos.gpu.page import Steps, serve

from enginechaos.sim.proctitle import set_title

log = logging.getLogger("ranks")

_SIDE = {"cpu": 128, "cuda": 4096}
_PRODUCTS = {"cpu": 2, "cuda": 40}
"""Of matrices, between two collectives: a step of tens of milliseconds on an H200."""
_PACE = {"cpu": 0.05, "cuda": 0.0}
"""Seconds of sleep in a step: a test on processors is not there to heat them."""
_REMEMBERED = 10.0
"""Seconds for which the slowest step is told."""
_CYCLES_PER_SECOND = 1.8e9
"""Of `torch.cuda._sleep`; an H200 at work runs at 1.7 to 1.98 GHz."""


@dataclass(frozen=True)
class Settings:
    """`store` is the port of rank 0's key-value store, `port` that of its HTTP server."""

    rank: int
    world: int
    backend: str
    device: str
    store: int
    port: int
    folder: Path
    timeout: float


def run(settings: Settings) -> None:
    """Work until killed. Raises what PyTorch raises."""
    steps = Steps()
    if settings.rank == 0:
        serve(settings.port, steps)
    recent: deque[tuple[float, float]] = deque()
    began = time.time()
    for step in _steps(settings):
        steps.did(step)
        now = time.time()
        recent.append((now, now - began))
        while recent[0][0] < now - _REMEMBERED:
            recent.popleft()
        _told(settings, {"step": step, "at": now, "slowest": max(took for _, took in recent)})
        began = now


def _steps(settings: Settings) -> Iterator[int]:
    # Of the Python that runs the ranks, and of nothing else here.
    torch: Any = import_module("torch")
    dist: Any = import_module("torch.distributed")

    kind, device = settings.device, settings.device
    torch.set_num_threads(1)
    if kind == "cuda":
        device = f"cuda:{settings.rank % torch.cuda.device_count()}"
        torch.cuda.set_device(device)
    log.info(
        "rank %d of %d on %s, torch %s", settings.rank, settings.world, device, torch.__version__
    )
    dist.init_process_group(
        settings.backend,
        init_method=f"tcp://127.0.0.1:{settings.store}",
        rank=settings.rank,
        world_size=settings.world,
        timeout=timedelta(seconds=settings.timeout),
    )
    of_floats: Any = {"dtype": torch.bfloat16} if kind == "cuda" else {}
    left = torch.randn(_SIDE[kind], _SIDE[kind], device=device, **of_floats)
    sums = torch.ones(1 << 14, device=device)
    step = 0
    while True:
        _busy(_order(settings, "busy"))
        for _ in range(_PRODUCTS[kind]):
            left @ left
        held = _order(settings, "hold")
        if held and kind == "cuda":
            torch.cuda._sleep(int(held * _CYCLES_PER_SECOND))
        sums.fill_(1.0)
        dist.all_reduce(sums)
        if kind == "cuda":
            torch.cuda.synchronize()
        if float(sums[0]) != settings.world:
            raise RuntimeError(f"the sum of {settings.world} ones is {float(sums[0])}")
        time.sleep(_PACE[kind])
        step += 1
        yield step


def _order(settings: Settings, what: str) -> float:
    """The seconds that a file asks for, which is taken away; 0 without one."""
    path = settings.folder / f"{what}.{settings.rank}"
    try:
        seconds = float(path.read_text())
    except (OSError, ValueError):
        return 0.0
    path.unlink(missing_ok=True)
    return seconds


def _busy(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass


def _told(settings: Settings, progress: dict[str, float]) -> None:
    path = settings.folder / f"rank{settings.rank}.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps(progress))
    new.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m chaos.gpu.ranks", description=__doc__)
    for name in ("rank", "world", "store", "port"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--backend", choices=("gloo", "nccl"), required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--timeout", type=float, default=30.0, help="of a collective, in seconds")
    settings = Settings(**vars(parser.parse_args()))
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(levelname)s %(asctime)s [rank {settings.rank}] %(message)s",
    )
    # As vLLM's workers call themselves; the port says whose they are, where there are more engines.
    set_title(f"VLLM::Worker_TP{settings.rank} --port {settings.port}")
    try:
        run(settings)
    except Exception:
        log.exception("the step failed")
        # The interpreter's own end would wait for threads that hang.
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    threading.current_thread().name = "steps"
    main()
