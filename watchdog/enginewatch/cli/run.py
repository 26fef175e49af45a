"""`enginewatch run`: the daemon."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from enginewatch.cli.logs import set_up_logging
from enginewatch.cli.options import address
from enginewatch.config import Config, ConsoleConfig, ReceiverConfig, config_for_urls, load_config
from enginewatch.daemon import Daemon
from enginewatch.errors import EnginewatchError
from enginewatch.units import plural

CONFIG_FILE = Path("enginewatch.yml")
TO_CONSOLE = ReceiverConfig(name="console", console_configs=(ConsoleConfig(),))

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The configuration; enginewatch.yml if there is one."),
]


def run(
    urls: Annotated[
        list[str] | None, typer.Argument(help="Engines to watch, such as http://gpu-1:8000.")
    ] = None,
    config: ConfigFile = None,
    runtime: Annotated[
        str | None, typer.Option(help="Of the engines named: vllm, trtllm, triton, nim, …")
    ] = None,
    listen: Annotated[str | None, typer.Option(help="The API's host:port.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Watch engines and tell receivers, until stopped."""
    set_up_logging(verbose=verbose)
    watch(loader(urls or [], config, runtime, listen))


def loader(
    urls: list[str], path: Path | None, runtime: str | None, listen: str | None
) -> Callable[[], Config]:
    """How the configuration is read, now and at each reload. Raises EnginewatchError."""
    if listen is not None:
        address(listen, "--listen")
    if urls and path is not None:
        raise EnginewatchError("give URLs or a configuration file, not both")
    if not urls and runtime is not None:
        raise EnginewatchError("--runtime is about URLs; in a configuration it stands in the job")
    if not urls and path is None and not CONFIG_FILE.is_file():
        raise EnginewatchError(
            "nothing to watch",
            hint="enginewatch run http://host:8000, or enginewatch run -c enginewatch.yml",
        )

    def load() -> Config:
        if urls:
            found = config_for_urls(urls, runtime).model_copy(update={"receivers": (TO_CONSOLE,)})
        else:
            found = load_config(path or CONFIG_FILE)
        if listen is None:
            return found
        return found.model_copy(update={"web": found.web.model_copy(update={"listen": listen})})

    return load


def collect_garbage_seldom() -> None:
    """Pages and labels are trees: they make tens of thousands of objects, and no cycles. To look
    for cycles after every 700, as Python does, is a third of what the first scrapes cost."""
    gc.set_threshold(50_000, 20, 50)


def watch(load: Callable[[], Config]) -> None:
    """Run the daemon in this process until it is told to stop."""
    collect_garbage_seldom()
    console = Console(highlight=False, soft_wrap=True)

    async def main() -> None:
        daemon = Daemon(load, console)

        def announce(url: str) -> None:
            watched = plural(len(daemon.targets()), "engine")
            console.print(f"enginewatch watches {watched}; API at {url}", style="dim")

        await daemon.run(announce)

    asyncio.run(main())
