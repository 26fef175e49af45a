"""`enginewatch check-config`: everything a configuration names, read once, errors and all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from enginewatch.canary.baseline import read_baseline
from enginewatch.cli.run import CONFIG_FILE, ConfigFile
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.scrape import wall_clock
from enginewatch.config import Config, load_config, parse_matchers
from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels, MatchOp
from enginewatch.notify.reach import hearers
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.units import format_duration, plural
from enginewatch.wiring import doubts, read_rules


def check_config(
    config: ConfigFile = None,
    alert: Annotated[
        str | None,
        typer.Option(help="Who would hear of it: its labels, severity=page,deployment=chat."),
    ] = None,
) -> None:
    """Read a configuration, its rules and its target files; exit 2 with the places of errors."""
    path = config or CONFIG_FILE
    loaded = load_config(path)
    files = read_rules(loaded)
    found = Discovery(loaded).targets(wall_clock())
    for section in loaded.preflight:
        gather(Inputs(section.options()))
    for canary in loaded.canary:
        read_baseline(canary.baseline)
    rules = sum(len(group.rules) for file in files for group in file.groups)
    typer.echo(
        f"{path}: {plural(len(found.targets), 'target')} now,"
        f" {plural(rules, 'rule')} in {plural(len(files), 'file')},"
        f" {plural(len(loaded.receivers), 'receiver')}"
    )
    targets = [target.target.labels for target in found.targets]
    for warning in doubts(loaded, files, targets):
        typer.echo(f"warning: {warning}", err=True)
    if alert is not None:
        for line in explain(loaded, labels(alert)):
            typer.echo(line)
    if found.problems:
        raise EnginewatchError("\n".join(found.problems))


def labels(text: str) -> Labels:
    """`severity=page,deployment=chat`. Raises EnginewatchError."""
    try:
        matchers = parse_matchers(text)
    except ValueError as mistake:
        raise EnginewatchError(str(mistake), where="--alert") from None
    for matcher in matchers:
        if matcher.op is not MatchOp.EQUAL:
            raise EnginewatchError(f"{matcher} is no label", where="--alert", hint="name=value")
    return Labels((matcher.name, matcher.value) for matcher in matchers)


def explain(config: Config, asked: Labels) -> Iterator[str]:
    """Which receivers an alert reaches, by which route, told together with which others."""
    found = hearers(config, asked)
    if not found:
        yield f"{asked} reaches nobody"
    for heard in found:
        by = heard.route.group_by
        together = "all labels" if by is None else ", ".join(by) or "nothing: all are one group"
        every = format_duration(heard.route.timing.repeat_interval)
        yield f"{asked} reaches {', '.join(heard.integrations)}"
        yield f"  by the route {heard.route.key}, grouped by {together}, repeated after {every}"
