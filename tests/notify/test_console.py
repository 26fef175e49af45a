"""What a person reads in the terminal."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace

from rich.console import Console

from enginewatch.model import Alert, Labels, freeze
from enginewatch.notify.console import ConsoleReceiver, render
from enginewatch.notify.message import Notification

FIRING = Alert(
    Labels(alertname="StuckEngine", deployment="chat", instance="a:1", severity="page"),
    freeze({"summary": "No tokens for 20s", "runbook_url": "https://runbooks/stuck"}),
    value=0.0,
    active_at=0,
    fired_at=20_000,
)


def test_a_firing_alert_shows_symptom_place_and_runbook() -> None:
    assert render(FIRING).plain.splitlines() == [
        "00:00:20 FIRING   StuckEngine deployment=chat instance=a:1 severity=page",
        "         No tokens for 20s",
        "         runbook: https://runbooks/stuck",
    ]


def test_the_value_stands_beside_its_threshold() -> None:
    notes = freeze({**FIRING.annotations, "threshold": ">= 15 s"})
    shown = render(replace(FIRING, annotations=notes, value=20.0)).plain
    assert shown.splitlines()[2] == "         value 20 s (threshold >= 15 s)"


def test_a_resolved_alert_says_how_long_it_lasted_and_needs_no_runbook() -> None:
    shown = render(replace(FIRING, resolved_at=95_700)).plain
    assert "RESOLVED StuckEngine" in shown
    assert "after 1m15s" in shown
    assert "runbook" not in shown


def test_an_alert_kept_firing_without_its_inputs_says_so() -> None:
    assert "its inputs vanished" in render(replace(FIRING, unknown=True)).plain


def test_hostile_text_moves_no_cursor_and_means_no_markup() -> None:
    hostile = replace(
        FIRING,
        labels=FIRING.labels.with_(instance="\x1b[2Ja:1\r\nRESOLVED"),
        annotations=freeze({"summary": "[bold]\x1b]0;title\x07[/bold]"}),
    )
    out = io.StringIO()
    console = Console(file=out, width=200)
    told = Notification("console", "k", Labels(), (hostile,))
    asyncio.run(ConsoleReceiver("console", console).send(told))
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()
    assert "[bold]" in out.getvalue()
    assert len(out.getvalue().splitlines()) == 2  # the summary stays on one line of its own
