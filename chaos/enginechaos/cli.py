"""`enginechaos undo|report|plan`: what is needed before and after a run of the suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from enginechaos import journal, junit
from enginechaos.errors import ChaosError, UndoError
from enginechaos.interrupts import uninterrupted
from enginechaos.undo import owes, settle_all

RUNS: Final = Path(".enginechaos")

app = typer.Typer(
    help="The chaos suite's hands: take faults back after a crash, read journals, show the plan.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
JournalFolder = Annotated[Path, typer.Option("--journal", help="Where runs are kept.")]


@app.command()
def undo(
    run: Annotated[
        Path | None, typer.Argument(help="A run's folder; all that owe something if left out.")
    ] = None,
    journal: JournalFolder = RUNS,
) -> None:
    """Take back what a run that crashed has left behind, and say what was done."""
    folders = [_folder(run, journal)] if run is not None else _owing(journal)
    if not folders:
        print(f"nothing to undo in {journal}")
        return
    failures = []
    for folder in folders:
        try:
            said = _settle(folder)
        except UndoError as failure:
            failures.append(failure)
            continue
        print(f"{folder}: nothing to undo" if not said else f"{folder}:")
        for line in said:
            print(f"  {line}")
    for trouble in failures:
        print(trouble, file=sys.stderr)
    if failures:
        raise typer.Exit(1)


@app.command()
def report(
    path: Annotated[Path, typer.Argument(metavar="JOURNAL", help="journal.json, or its folder.")],
    output: Annotated[Path | None, typer.Option("-o", help="report.html beside it.")] = None,
    xml: Annotated[Path | None, typer.Option("--junit", help="JUnit XML too.")] = None,
) -> None:
    """Write a journal's HTML page anew."""
    from enginechaos import report as pages

    run = journal.read(path)
    beside = path if path.is_dir() else path.parent
    to = output or beside / "report.html"
    pages.write(run.facts, run.records, to)
    print(to)
    if xml is not None:
        junit.write(run.records, xml)
        print(xml)


@app.command()
def plan(
    target: Annotated[Path | None, typer.Option(help="A target file.")] = None,
) -> None:
    """Print what the suite would do to whom, and touch nothing."""
    arguments = ["--pyargs", "enginechaos", "--chaos-dry-run", "-q", "--no-header"]
    arguments += ["-p", "no:cacheprovider"]
    if target is not None:
        arguments += ["--chaos-target", str(target)]
    # A process of its own: pytest wants to be the first to import what it tests.
    raise typer.Exit(subprocess.call([sys.executable, "-m", "pytest", *arguments]))  # noqa: S603


def main() -> None:
    """The console script. Errors are one line, and exit code 2; what can't be undone is 1."""
    try:
        app()
    except ChaosError as failure:
        print(failure, file=sys.stderr)
        sys.exit(2)


def _folder(run: Path, base: Path) -> Path:
    """A run by its folder, or by its name among all runs. Raises UndoError."""
    for each in (run, base / run):
        if each.is_dir():
            return each
    raise UndoError("there is no such run", where=str(run), hint=f"runs are kept in {base}")


def _owing(base: Path) -> list[Path]:
    return sorted(each for each in base.glob("*") if each.is_dir() and owes(each))


def _settle(folder: Path) -> list[str]:
    with uninterrupted():
        return settle_all(folder)
