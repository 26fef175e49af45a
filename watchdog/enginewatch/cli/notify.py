"""`enginewatch notify test`: whether a page would arrive, before it has to."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich.console import Console

from enginewatch.cli.output import FOUND
from enginewatch.cli.run import CONFIG_FILE, ConfigFile
from enginewatch.collect.scrape import wall_clock
from enginewatch.config import Config, load_config
from enginewatch.errors import EnginewatchError
from enginewatch.model import Alert, Labels, Millis, freeze
from enginewatch.notify.build import build_receivers
from enginewatch.notify.message import (
    DeliveryError,
    Notification,
    Reason,
    Receipt,
    Receiver,
)
from enginewatch.notify.text import one_line
from enginewatch.wiring import external_url

app = typer.Typer(no_args_is_help=True, help="Receivers of alerts.")

ANNOTATIONS: Final = freeze(
    {
        "summary": "Test of enginewatch: nothing is wrong",
        "impact": "None: somebody ran `enginewatch notify test`.",
        "description": "This shows that pages arrive. Its resolve follows at once.",
        "evidence": "the first line of evidence\nthe second, with <markup> & @here in it",
    }
)


@app.callback()
def _group() -> None: ...  # with it, typer keeps `test` as a word of its own


@app.command()
def test(
    receiver: Annotated[
        str, typer.Argument(help="A receiver, such as on-call, or one part of it: on-call/slack[0]")
    ],
    config: ConfigFile = None,
    severity: Annotated[str, typer.Option(help="Of the test: page, ticket or info.")] = "page",
) -> None:
    """Send one test page and its resolve, and show what the provider answers."""
    loaded = load_config(config or CONFIG_FILE)
    chosen = pick(loaded, receiver)
    first = notification(severity, external_url(loaded), wall_clock())
    if not asyncio.run(_tell(chosen, first)):
        raise typer.Exit(FOUND)


def pick(config: Config, name: str) -> list[Receiver]:
    """The integrations meant. Raises EnginewatchError for a name that nothing has."""
    console = Console(highlight=False, soft_wrap=True)
    every = list(build_receivers(config.receivers, console))
    chosen = [one for one in every if name in (one.name, one.name.rpartition("/")[0])]
    if not chosen:
        if any(each.name == name for each in config.receivers):
            raise EnginewatchError(f"receiver {name!r} tells nobody: it has no integrations")
        known = [each.name for each in config.receivers] + [one.name for one in every]
        raise EnginewatchError(
            f"no receiver is called {name!r}", hint=f"known: {', '.join(known) or 'none'}"
        )
    return chosen


def notification(severity: str, link: str, now: Millis) -> Notification:
    """The test page: an incident of its own each time."""
    labels = Labels(
        alertname="EnginewatchTest",
        verdict="benign",
        severity=severity,
        deployment="enginewatch-test",
        instance="enginewatch-test",
    )
    alert = Alert(labels, ANNOTATIONS, value=1.0, active_at=now, fired_at=now)
    id_ = uuid.uuid4().hex
    return Notification("test", f"{{}}:test {id_}", labels, (alert,), link, at=now, id=id_)


async def _tell(receivers: Sequence[Receiver], first: Notification) -> bool:
    """Whether all of them took both."""
    try:
        return all([await _tell_one(receiver, first) for receiver in receivers])
    finally:
        for receiver in receivers:
            await receiver.close()


async def _tell_one(receiver: Receiver, first: Notification) -> bool:
    receipt = await _send(receiver, first, None)
    if receipt is None:
        return False
    if not receiver.send_resolved:
        typer.echo(f"{receiver.name}: resolved: not sent, as send_resolved is false")
        return True
    now = wall_clock()
    over = tuple(replace(alert, resolved_at=now) for alert in first.alerts)
    last = replace(first, alerts=over, reason=Reason.ALL_RESOLVED, at=now, id=f"{first.id}-end")
    return await _send(receiver, last, receipt) is not None


async def _send(receiver: Receiver, told: Notification, previous: Receipt | None) -> Receipt | None:
    try:
        receipt = await receiver.send(told, previous)
    except DeliveryError as failure:
        typer.echo(f"{receiver.name}: {told.status.value}: FAILED: {failure.what}", err=True)
        return None
    typer.echo(f"{receiver.name}: {told.status.value}: {one_line(receipt.detail) or 'taken'}")
    return receipt
