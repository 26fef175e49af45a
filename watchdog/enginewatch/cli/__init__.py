"""The command line: one file a command, and one place where errors become exit codes.

Exit codes: 0 done; 1 the command found something wrong with what it looked at;
2 wrong use or configuration. An error is one sentence on stderr, never a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Final, NoReturn

import typer

from enginewatch import __version__
from enginewatch.cli.output import WRONG_USE
from enginewatch.errors import EnginewatchError

COMMANDS: Final = (
    "run",
    "check-config",
    "rules",
    "notify",
    "silence",
    "canary",
    "diagnose",
    "preflight",
    "stamp",
    "record",
    "replay",
)
"""Each has a module of its name, with `app` where it has commands of its own, else a function
of its name. Only that of the command asked for is imported: a pipeline waits for no daemon."""


def command_line(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program, with these commands."""
    app = typer.Typer(
        name="enginewatch",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Watch LLM serving engines and page once when one fails in a way its health check "
        "hides.",
    )
    app.callback()(_options)
    for name in names:
        attribute = name.replace("-", "_")
        module = import_module(f"enginewatch.cli.{attribute}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, attribute))
    return app


def _asked_for(arguments: Sequence[str]) -> Sequence[str]:
    """The command that is meant; all of them where none is, as for help and for a typing error."""
    first = next((each for each in arguments if not each.startswith("-")), "")
    return (first,) if first in COMMANDS and arguments[0] == first else COMMANDS


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"enginewatch {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


def main() -> NoReturn:
    """The console script."""
    try:
        command_line(_asked_for(sys.argv[1:]))()
    except EnginewatchError as failure:
        for line in str(failure).splitlines():
            typer.echo(f"error: {line}", err=True)
        sys.exit(WRONG_USE)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output left (`enginewatch replay … | head`): nobody to complain to.
        sys.stderr.close()
        sys.exit(0)
    sys.exit(0)
