"""`enginewatch replay`: judge a recording again, or serve it as if it were live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from enginewatch.alerting.events import AlertChange, ChangeKind
from enginewatch.alerting.judge import Settings
from enginewatch.alerting.rules import load_rule_files
from enginewatch.cli import staged
from enginewatch.cli.options import Rules, parse_span, pick_rules
from enginewatch.model import Millis
from enginewatch.recording import read_recording
from enginewatch.replay import Replay, Told, between
from enginewatch.units import format_duration, plural


def replay(
    file: Annotated[Path, typer.Argument(help="A recording; compressed ones are recognised.")],
    rules: Rules = None,
    interval: Annotated[
        str, typer.Option(help="How often rules without an interval of their own are evaluated.")
    ] = "5s",
    start: Annotated[str, typer.Option("--from", help="Begin so far into the recording.")] = "0s",
    end: Annotated[str | None, typer.Option("--until", help="End so far into it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    speed: Annotated[
        float | None,
        typer.Option(
            help="Serve the pages over HTTP, so many times as fast as they were recorded."
        ),
    ] = None,
    listen: Annotated[str, typer.Option(help="With --speed: where to serve.")] = "127.0.0.1:0",
    watch: Annotated[bool, typer.Option(help="With --speed: watch what is served, too.")] = False,
) -> None:
    """Print which alerts would have fired, and when."""
    first = parse_span(start, "--from")
    last = None if end is None else parse_span(end, "--until")
    events = between(read_recording(file), first, last)
    if speed is not None:
        staged.serve(events, speed, listen, watch=watch)
        return
    settings = Settings(interval=parse_span(interval, "--interval"))
    counts = {ChangeKind.FIRING: 0, ChangeKind.RESOLVED: 0}
    began: Millis | None = None
    for told in Replay(load_rule_files(pick_rules(rules)), settings).run(events):
        began = told.at if began is None else began
        typer.echo(json.dumps(as_object(told)) if as_json else as_line(told, told.at - began))
        if isinstance(told, AlertChange) and told.kind in counts:
            counts[told.kind] += 1
    if not as_json:
        fired, resolved = counts.values()
        typer.echo(f"{plural(fired, 'alert')} fired, {resolved} resolved")


def as_line(told: Told, since: Millis) -> str:
    """`+3m25s firing   EngineStuck instance=… summary`, times counted from the first line."""
    when = f"+{format_duration(since // 1000 * 1000)}"
    if not isinstance(told, AlertChange):
        return f"{when:>9} note      {told.text}"
    alert = told.alert
    where = alert.labels.get("instance") or alert.labels.get("deployment", "")
    line = f"{when:>9} {told.kind.value:<9} {alert.name} {where}"
    if told.reason:
        return f"{line} ({told.reason})"
    shown = told.kind is ChangeKind.FIRING and alert.annotations.get("summary")
    return f"{line}\n{'':20}{shown}" if shown else line


def as_object(told: Told) -> dict[str, Any]:
    at = told.at / 1000
    if not isinstance(told, AlertChange):
        return {"t": at, "note": told.text}
    return {
        "t": at,
        "change": told.kind.value,
        "alert": told.alert.name,
        "labels": dict(told.alert.labels),
        "annotations": dict(told.alert.annotations),
        "value": told.alert.value,
    }
