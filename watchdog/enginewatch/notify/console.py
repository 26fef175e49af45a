"""Console receiver: what a person reads in the terminal where the daemon runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from rich.console import Console
from rich.text import Text

from enginewatch.model import Alert, AlertState, Millis
from enginewatch.notify.message import Notification, Receipt
from enginewatch.notify.text import one_line
from enginewatch.notify.threshold import ANNOTATION, value_of
from enginewatch.units import format_duration, format_time

STYLES: Final = {
    AlertState.FIRING: "bold red",
    AlertState.RESOLVED: "bold green",
    AlertState.PENDING: "yellow",
}


@dataclass(frozen=True)
class ConsoleReceiver:
    name: str
    console: Console
    send_resolved: bool = True

    pace: ClassVar[Millis] = 0

    async def send(self, notification: Notification, _: Receipt | None = None) -> Receipt:
        for alert in notification.alerts:
            self.console.print(render(alert))
        return Receipt()

    async def close(self) -> None:
        """The terminal stays open."""


def render(alert: Alert) -> Text:
    """Symptom first, then what it means and what to do."""
    at = alert.resolved_at or alert.fired_at or alert.active_at
    head = Text()
    head.append(format_time(at)[11:19] + " ")
    head.append(f"{alert.state.value.upper():<8}", STYLES[alert.state])
    head.append(f" {one_line(alert.name)}", "bold")
    for label in ("deployment", "instance", "severity"):
        if label in alert.labels:
            head.append(f" {label}={one_line(alert.labels[label])}")
    if alert.state is AlertState.RESOLVED and alert.fired_at is not None:
        lasted = (at - alert.fired_at) // 1000 * 1000
        head.append(f" after {format_duration(lasted)}")
    if alert.unknown:
        head.append(" (its inputs vanished: kept firing)", "yellow")
    if alert.state is AlertState.FIRING:
        notes = alert.annotations
        value = f"value {value_of(alert)}" if ANNOTATION in notes else ""
        book = notes.get("runbook_url")
        texts = (notes.get("summary"), value, notes.get("description"))
        for text in (*texts, book and f"runbook: {book}"):
            if text:
                head.append(f"\n         {one_line(text)}")
    return head
