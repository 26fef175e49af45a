"""`enginewatch check-config`: everything a configuration names, read once, errors and all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from enginewatch.alerting.rules import AlertingRule
from enginewatch.canary.baseline import read_baseline
from enginewatch.cli.output import plural
from enginewatch.cli.run import CONFIG_FILE, ConfigFile
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.scrape import wall_clock
from enginewatch.config import Config, load_config, parse_matchers
from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels, MatchOp
from enginewatch.notify.reach import hearers, unheard_pages
from enginewatch.notify.route import integrations
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.units import format_duration
from enginewatch.web.admin import is_loopback
from enginewatch.wiring import external_url, read_rules

SHOWN: Final = 5
"""Alerts that a warning names."""


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
    alerts = [r for f in files for g in f.groups for r in g.rules if isinstance(r, AlertingRule)]
    targets = [target.target.labels for target in found.targets]
    for warning in warnings(loaded, alerts, targets):
        typer.echo(f"warning: {warning}", err=True)
    if alert is not None:
        for line in explain(loaded, labels(alert)):
            typer.echo(line)
    if found.problems:
        raise EnginewatchError("\n".join(found.problems))


def warnings(
    config: Config, rules: Sequence[AlertingRule], targets: Sequence[Labels]
) -> Iterator[str]:
    """What is allowed, and hardly meant."""
    if not config.receivers:
        yield "no receivers: nobody is told of an alert"
        return
    for deployment, names in unheard_pages(config, rules, targets).items():
        shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        about = f"about {deployment}" if deployment else "without a deployment"
        yield f"{plural(len(names), 'page')} {about} would reach nobody: {shown}"
    told_elsewhere = any(
        "/console[" not in way for ways in integrations(config).values() for way in ways
    )
    if told_elsewhere and config.web.external_url is None and is_loopback(config.web.address[0]):
        yield (
            f"links in notifications lead to {external_url(config)}, which opens on this machine"
            " alone: set web.external_url"
        )


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
