"""The engine core process: the step loop between the API server and the ranks.

`python -m enginechaos.sim.core FD`: FD is the API server's socket. Messages to it: `settings`
(first), `add`, `abort`. From it: `ready`, then after every step `report` and `outputs`. It ends
when the server does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from enginechaos.sim import damage
from enginechaos.sim.blocks import BlockPool
from enginechaos.sim.dialects import find
from enginechaos.sim.engine import Engine, Request
from enginechaos.sim.engine_dir import Build, EngineRefused
from enginechaos.sim.engine_dir import load as load_engine
from enginechaos.sim.executor import Executor, InProcess, Processes, RankDied
from enginechaos.sim.language import Language
from enginechaos.sim.memory import OutOfGpuMemory, TooLittleMemory
from enginechaos.sim.proctitle import set_title
from enginechaos.sim.ranks_memory import RanksMemory
from enginechaos.sim.scheduler import Limits
from enginechaos.sim.settings import Settings
from enginechaos.sim.timing import Timing
from enginechaos.sim.wire import Wire

_STARVED: Final = 0.02
"""Seconds between looks at a queue of which nothing fits."""


class Core:
    def __init__(self, settings: Settings, wire: Wire, activity: list[Path | None]):
        self._settings: Final = settings
        self._wire: Final = wire
        self._dialect: Final = find(settings)
        self._memory: Final = RanksMemory(settings)
        self._executor: Final = self._make_executor(activity)
        self._wake: Final = asyncio.Event()

    async def serve(self) -> int:
        """Until the API server is gone, or the engine dies; the exit code."""
        said = self._dialect.core_log()
        try:
            self._load_engine()
            await self._executor.start()
            blocks = self._memory.start(self._executor.pids)
        except (OutOfGpuMemory, TooLittleMemory) as failure:
            kind = (
                "ValueError" if isinstance(failure, TooLittleMemory) else "torch.OutOfMemoryError"
            )
            said.no_memory_to_start(f"{kind}: {failure}")
            await self._executor.stop()
            return 1
        except EngineRefused as failure:
            print(failure, flush=True)
            return 1
        engine = self._engine(blocks)
        said.started(blocks)
        self._wire.send({"ready": {"pids": [os.getpid(), *self._executor.pids], "blocks": blocks}})
        reader = asyncio.create_task(self._read(engine))
        stepping = asyncio.create_task(self._step_for_ever(engine))
        done, _ = await asyncio.wait((reader, stepping), return_when=asyncio.FIRST_COMPLETED)
        code = 0
        if stepping in done:
            code = 1
            self._explain(stepping.exception(), engine)
            self._wire.send({"dead": True})
        reader.cancel()
        stepping.cancel()
        await self._executor.stop()
        return code

    def _load_engine(self) -> None:
        """Raises EngineRefused."""
        settings = self._settings
        if settings.engine_dir is not None:
            library = Build.of("{}.{}".format(*settings.capability), settings.tensorrt)
            version = load_engine(settings.engine_dir, library, settings.tensor_parallel)
            print(
                f"[TensorRT-LLM][INFO] Engine version {version} found in the config file, "
                "assuming engine(s) built by new builder API.",
                flush=True,
            )

    def _explain(self, failure: BaseException | None, engine: Engine) -> None:
        said = self._dialect.core_log()
        if isinstance(failure, TimeoutError):
            said.step_timed_out(engine)
        elif isinstance(failure, RankDied):
            said.rank_died(failure.rank, failure.code)
        elif isinstance(failure, OutOfGpuMemory):
            said.out_of_memory(str(failure), engine)
        elif failure is not None:
            raise failure

    async def _read(self, engine: Engine) -> None:
        while (message := await self._wire.receive()) is not None:
            if "add" in message:
                engine.add(Request.from_json(message["add"]))
            elif "abort" in message:
                engine.abort(message["abort"])
            self._wake.set()

    async def _step_for_ever(self, engine: Engine) -> None:
        while True:
            if not engine.has_work:
                self._wake.clear()
                await self._wake.wait()
                continue
            step = engine.schedule(time.monotonic())
            if not step.shares:
                await asyncio.sleep(_STARVED)
                continue
            self._memory.touch(step.tokens, step.rows)
            await self._executor.run(engine.seconds(step))
            outputs, report = engine.complete(step)
            self._wire.send(
                {"report": asdict(report), "outputs": [asdict(output) for output in outputs]}
            )

    def _engine(self, blocks: int) -> Engine:
        settings = self._settings
        limits = Limits(
            max_num_batched_tokens=settings.max_num_batched_tokens,
            max_num_seqs=settings.max_num_seqs,
            speculative_tokens=settings.speculative_tokens,
            chunked_prefill=settings.chunked_prefill,
        )
        return Engine(
            limits,
            BlockPool(blocks, settings.block_size, caching=settings.prefix_caching),
            Timing.load(settings.timing),
            Language(settings.seed, damage.load(settings.format)),
            settings.max_model_len,
            settings.acceptance,
            settings.seed,
        )

    def _make_executor(self, activity: list[Path | None]) -> Executor:
        count = self._settings.tensor_parallel
        if count == 1:
            return InProcess(activity[0])
        titles = [self._dialect.titles.rank(rank) for rank in range(count)]
        return Processes(
            self._settings,
            titles,
            activity,
            timeout=self._dialect.hang_timeout,
            hears_of_dead=self._dialect.hears_of_dead_ranks,
            patience=self._dialect.core_log().step_is_late,
        )


async def _main(descriptor: int) -> int:
    wire = await Wire.open(socket.socket(fileno=descriptor))
    first = await wire.receive()
    if first is None:
        return 0
    settings = Settings.model_validate(first["settings"])
    set_title(find(settings).titles.core)
    activity = [Path(each) if each else None for each in _activity(first)]
    code = await Core(settings, wire, activity).serve()
    with contextlib.suppress(ConnectionError):
        await wire.flush()
    return code


def _activity(first: dict[str, Any]) -> list[str]:
    found: list[str] = first["activity"]
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the API server ends its core
    sys.exit(asyncio.run(_main(int(sys.argv[1]))))
