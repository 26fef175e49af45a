"""A recording served as if it were live, and watched by a daemon beside it if asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from tempfile import TemporaryDirectory

from rich.console import Console

from enginewatch.cli.logs import set_up_logging
from enginewatch.cli.options import address
from enginewatch.cli.run import TO_CONSOLE
from enginewatch.cli.stopping import stop_on_signal, until
from enginewatch.config import Config
from enginewatch.daemon import Daemon
from enginewatch.errors import EnginewatchError
from enginewatch.model import Millis
from enginewatch.recording import Event, NoteEvent
from enginewatch.replay import target_labels
from enginewatch.units import format_duration
from enginewatch.web.app import Server
from enginewatch.web.recorded import Stage


def serve(events: Iterable[Event], speed: float, listen: str, *, watch: bool) -> None:
    """Serve the recorded pages until the recording is over, or Ctrl-C."""
    if not speed > 0:
        raise EnginewatchError(f"{speed} is no speed", where="--speed", hint="1 is real time")
    set_up_logging(verbose=False)
    asyncio.run(_serve(list(events), speed, address(listen, "--listen"), watch=watch))


async def _serve(events: list[Event], speed: float, at: tuple[str, int], *, watch: bool) -> None:
    began = time.monotonic()

    def position() -> Millis:
        return round((time.monotonic() - began) * 1000 * speed)

    console = Console(highlight=False, soft_wrap=True)
    stage = Stage(events, position)
    server = Server(stage.app(), *at)
    await server.start()
    for path, labels in stage.paths().items():
        console.print(f"{labels.get('instance', 'recording')} is served at {server.url}{path}")
    lasts = format_duration(round(stage.length / speed) // 1000 * 1000)
    console.print(f"the recording runs for {lasts}")
    telling = asyncio.create_task(_tell_notes(events, stage.first, speed, console))
    try:
        if watch:
            await _watch(stage, server, speed, console)
        else:
            await until(stop_on_signal(), stage.length / speed / 1000)
    finally:
        telling.cancel()
        await server.stop()


async def _watch(stage: Stage, server: Server, speed: float, console: Console) -> None:
    """A daemon with nothing but the stage to watch, which ends with the recording."""
    with TemporaryDirectory() as folder:
        daemon = Daemon(lambda: _config(stage, server.url, folder), console)
        asyncio.get_running_loop().call_later(stage.length / speed / 1000, daemon.stop)
        await daemon.run(lambda url: console.print(f"enginewatch watches it; API at {url}"))


def _config(stage: Stage, url: str, folder: str) -> Config:
    address = url.removeprefix("http://")
    jobs = []
    for number, (path, recorded) in enumerate(stage.paths().items()):
        labels = dict(target_labels(recorded))
        jobs.append(
            {
                "job_name": f"{labels.pop('job')}-{number}" if number else labels.pop("job"),
                "metrics_path": path,
                "deployment": labels.pop("deployment"),
                "static_configs": [{"targets": [address], "labels": labels}],
            }
        )
    config = Config.model_validate(
        {"scrape_configs": jobs, "web": {"listen": "127.0.0.1:0"}, "storage": {"path": folder}}
    )
    return config.model_copy(update={"receivers": (TO_CONSOLE,)})


async def _tell_notes(events: list[Event], first: Millis, speed: float, console: Console) -> None:
    """What whoever recorded wrote down, at the moment when it happened."""
    clock = asyncio.get_running_loop().time
    began = clock()
    for event in events:
        if isinstance(event, NoteEvent):
            await asyncio.sleep(max(0.0, began + (event.at - first) / 1000 / speed - clock()))
            console.print(f"recorded: {event.text}", style="cyan")
