"""`enginewatch check-config`: everything a configuration names, read once, errors and all."""

from __future__ import annotations

import typer

from enginewatch.cli.output import plural
from enginewatch.cli.run import CONFIG_FILE, ConfigFile
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.scrape import wall_clock
from enginewatch.config import load_config
from enginewatch.daemon import read_rules
from enginewatch.errors import EnginewatchError


def check_config(config: ConfigFile = None) -> None:
    """Read a configuration, its rules and its target files; exit 2 with the places of errors."""
    path = config or CONFIG_FILE
    loaded = load_config(path)
    files = read_rules(loaded)
    found = Discovery(loaded).targets(wall_clock())
    rules = sum(len(group.rules) for file in files for group in file.groups)
    typer.echo(
        f"{path}: {plural(len(found.targets), 'target')} now,"
        f" {plural(rules, 'rule')} in {plural(len(files), 'file')},"
        f" {plural(len(loaded.receivers), 'receiver')}"
    )
    if not loaded.receivers:
        typer.echo("warning: no receivers: nobody is told of an alert", err=True)
    if found.problems:
        raise EnginewatchError("\n".join(found.problems))
