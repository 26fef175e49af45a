"""The command line: one file a command, and one place where errors become exit codes.

Exit codes: 0 done; 1 the command found something wrong with what it looked at;
2 wrong use or configuration. An error is one sentence on stderr, never a traceback.
"""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from enginewatch import __version__
from enginewatch.cli import (
    canary,
    check_config,
    diagnose,
    notify,
    preflight,
    record,
    replay,
    rules,
    run,
    silence,
    stamp,
)
from enginewatch.cli.output import WRONG_USE
from enginewatch.errors import EnginewatchError

app = typer.Typer(
    name="enginewatch",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Watch LLM serving engines and page once when one fails in a way its health check hides.",
)
app.command("run")(run.run)
app.command("check-config")(check_config.check_config)
app.add_typer(rules.app, name="rules")
app.add_typer(notify.app, name="notify")
app.add_typer(silence.app, name="silence")
app.add_typer(canary.app, name="canary")
app.command("diagnose")(diagnose.diagnose)
app.command("preflight")(preflight.preflight)
app.command("stamp")(stamp.stamp)
app.command("record")(record.record)
app.command("replay")(replay.replay)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"enginewatch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


def main() -> NoReturn:
    """The console script."""
    try:
        app()
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
