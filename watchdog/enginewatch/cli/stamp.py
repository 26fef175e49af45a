"""`enginewatch stamp`: write down what an engine was built from, or see whether it still is so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import pynvml
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from enginewatch.cli.output import FOUND
from enginewatch.errors import EnginewatchError
from enginewatch.preflight.artifacts import folder
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.readers.checkpoint import read_checkpoint
from enginewatch.preflight.readers.digest import Progress as Told
from enginewatch.preflight.readers.engine_dir import read_engine_dir
from enginewatch.preflight.readers.gpus import driver_gpus
from enginewatch.preflight.readers.stampfile import STAMP, read_stamp, write_stamp
from enginewatch.preflight.readers.unread import Unread
from enginewatch.preflight.readers.versions import installed_versions
from enginewatch.preflight.stamp import altered, make_stamp
from enginewatch.preflight.targets import targets
from enginewatch.units import format_time, plural

Texts = list[str] | None


def stamp(
    engine: Annotated[
        str, typer.Argument(metavar="DIR", help="The engine directory, as it was just built.")
    ],
    model: Annotated[
        str, typer.Option(metavar="DIR", help="The checkpoint that it was built from.")
    ] = "",
    command: Annotated[
        str, typer.Option(metavar="TEXT", help="The command that built it; secrets are left out.")
    ] = "",
    gpus: Annotated[
        str, typer.Option(metavar="MODEL", help="The GPU it was built on, if its plans don't tell.")
    ] = "",
    runtime: Annotated[
        Texts, typer.Option(metavar="NAME=VERSION", help="tensorrt-llm=1.2.1, cuda=13.1.")
    ] = None,
    freeze: Annotated[
        Texts, typer.Option(metavar="FILE", help="pip freeze of the container that built it.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every file, and compare with the stamp there is.")
    ] = False,
) -> None:
    """Write a stamp beside an engine when it is built: model, precision, shapes, GPU, versions.

    `enginewatch preflight --engine-dir DIR` says later which change since then asks for a rebuild.
    """
    path = folder(engine, "DIR")
    if verify:
        _verify(path)
        return
    given = {"--gpus": (gpus,) if gpus else (), "--runtime": tuple(runtime or ())}
    given["--freeze"] = tuple(freeze or ())
    facts = gather(Inputs({name: values for name, values in given.items() if values}))
    for unread in facts.unread:
        raise PreflightError(unread.what, where=unread.where)
    if not gpus:
        facts += Facts(gpus=driver_gpus(pynvml).gpus)
    facts += Facts(versions=tuple(installed_versions()))
    built = read_engine_dir(path)
    checkpoint = read_checkpoint(folder(model, "--model")) if model else None
    for unread in (*built.unread, *(checkpoint.unread if checkpoint else ())):
        raise PreflightError(unread.what, where=unread.where)
    with _hashing() as progress:
        made = make_stamp(
            built,
            checkpoint,
            next(targets(facts), None),
            facts.versions,
            command=command,
            made=format_time(int(datetime.now(UTC).timestamp() * 1_000)),
            progress=progress,
        )
    written = write_stamp(made)
    files = len(made.engines) + len(made.files)
    typer.echo(f"{written}: {plural(files, 'file')}, {made.gpu or 'GPU model not known'}")
    if checkpoint is None:
        typer.echo("Without --model a change of the weights will not be seen.", err=True)


def _verify(path: Path) -> None:
    """Exit 1 where the engine is no longer what was stamped."""
    found = read_stamp(path)
    if found is None:
        hint = "write one where the engine is built: enginewatch stamp DIR"
        raise EnginewatchError(f"has no {STAMP}", where=str(path), hint=hint)
    if isinstance(found, Unread):
        raise PreflightError(found.what, where=found.where)
    with _hashing() as progress:
        odd = list(altered(path, found.engines, fully=True, progress=progress))
        source = Path(found.model)
        if found.files and source.is_dir():
            odd += altered(source, found.files, fully=True, progress=progress)
        elif found.files:
            typer.echo(f"{source} is not here: its files were not compared", err=True)
    for name, what in odd:
        typer.echo(f"{name} {what}")
    if odd:
        raise typer.Exit(FOUND)
    typer.echo(f"{path} is what was stamped at {found.made}")


@contextmanager
def _hashing() -> Iterator[Told]:
    """A bar on standard error, if that is a terminal: hashing reads every byte."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("hashing", total=None)

        def told(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield told
