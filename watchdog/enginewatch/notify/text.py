"""What every receiver tells a person of an alert, in plain words and the same order.

Symptom, impact, value against threshold, since when, where, evidence, and the links
that help. Nothing here is markup: each receiver escapes what it takes from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from enginewatch.model import Alert, AlertState, Labels, Millis
from enginewatch.notify.message import Notification, Reason
from enginewatch.notify.threshold import value_of
from enginewatch.units import format_duration, format_time

SEVERITIES: Final = ("page", "ticket", "info")
"""From the worst to the mildest; what is none of them stands between `page` and `ticket`."""

PLACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "deployment": "Deployment",
        "instance": "Instance",
        "model": "Model",
        "runtime": "Runtime",
        "gpu": "GPU",
        "rank": "Rank",
    }
)
"""Labels that say where, in the order in which people ask."""

MAYBE_REPEAT: Final = (
    "This may be a repeat: an earlier attempt to deliver it was not answered, but may have arrived."
)

LONGEST_URL: Final = 2_000
"""Slack takes 3,000 characters, some browsers little more than 2,000."""

CUT: Final = "… (cut)"

SILENCE_ANCHOR: Final = "silence"
"""Where on the alert's page its silence form is."""


class Link(NamedTuple):
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Told:
    """One alert for people. `description` and `evidence` may be long; the rest is short."""

    state: AlertState
    symptom: str
    impact: str
    description: str
    facts: tuple[tuple[str, str], ...]
    evidence: tuple[str, ...]
    links: tuple[Link, ...]


def one_line(text: str) -> str:
    """`text` without line breaks, control characters and marks that turn its direction."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def lines(text: str) -> tuple[str, ...]:
    """The lines of `text` that say something, each as by `one_line`."""
    return tuple(line for line in map(one_line, text.splitlines()) if line)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, saying so where some are missing."""
    return text if len(text) <= limit else text[: limit - len(CUT)] + CUT


def web_url(text: str) -> str:
    """`text` where it is an http URL, with what could end a link encoded; else nothing."""
    url = quote(text.strip(), safe="/:?#[]@!$&'()*+,;=%~")
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    good = parts.scheme in {"http", "https"} and parts.hostname and len(url) <= LONGEST_URL
    return url if good else ""


def told(alert: Alert, external_url: str) -> Told:
    """What is told of an alert that fires or has resolved."""
    notes = alert.annotations
    return Told(
        state=alert.state,
        symptom=symptom(alert),
        impact=one_line(notes.get("impact", "")),
        description=one_line(notes.get("description", "")),
        facts=tuple(_facts(alert)),
        evidence=lines(notes.get("evidence", "")),
        links=tuple(links(alert, external_url)),
    )


def symptom(alert: Alert) -> str:
    return one_line(alert.annotations.get("summary", "")) or one_line(alert.name)


def _facts(alert: Alert) -> Iterator[tuple[str, str]]:
    for label, title in PLACES.items():
        if label in alert.labels:
            yield title, one_line(alert.labels[label])
    if value := one_line(value_of(alert)):
        yield "Value", value
    yield "Since", moment(started(alert))
    if alert.resolved_at is not None:
        yield "Until", f"{moment(alert.resolved_at)}, after {lasted(alert, alert.resolved_at)}"
    if alert.unknown:
        yield "State", "unknown: its series vanished, it is kept firing until they are back"


def links(alert: Alert, external_url: str) -> Iterator[Link]:
    """The runbook, a dashboard, and the daemon's own page of the alert, as far as there are any."""
    for annotation, title in (("runbook_url", "Runbook"), ("dashboard_url", "Dashboard")):
        url = web_url(alert.annotations.get(annotation, ""))
        if url:
            yield Link(title, url)
    page = alert_page(alert, external_url)
    if page:
        yield Link("Alert", page)
        if alert.state is not AlertState.RESOLVED:
            yield Link("Silence", f"{page}#{SILENCE_ANCHOR}")


def alert_page(alert: Alert, external_url: str) -> str:
    """The URL of the alert's page, or nothing when the daemon's own is not known."""
    return f"{external_url}/alerts/{quote(alert.fingerprint)}" if external_url else ""


def started(alert: Alert) -> Millis:
    return alert.active_at if alert.fired_at is None else alert.fired_at


def lasted(alert: Alert, until: Millis) -> str:
    """How long it fired, to the second."""
    return format_duration(max(0, until - started(alert)) // 1000 * 1000)


def moment(at: Millis) -> str:
    """`2026-01-31 12:00:00 UTC`."""
    return f"{format_time(at)[:19].replace('T', ' ')} UTC"


def ranked(notification: Notification) -> tuple[Alert, ...]:
    """The alerts, those that matter most first: firing, severe, early."""

    def rank(alert: Alert) -> tuple[bool, float, Millis, Labels]:
        firing = alert.state is AlertState.FIRING
        return (not firing, _rank(severity_of(alert)), started(alert), alert.labels)

    return tuple(sorted(notification.alerts, key=rank))


def severity_of(alert: Alert) -> str:
    return alert.labels.get("severity", "")


def severity(notification: Notification) -> str:
    """The worst of the alerts that fire; of all, once none does."""
    return severity_of(ranked(notification)[0])


def _rank(name: str) -> float:
    return SEVERITIES.index(name) if name in SEVERITIES else 0.5


def headline(notification: Notification) -> str:
    """The worst symptom, and how many alerts there are beside it: `No tokens (and 2 more)`."""
    alerts = ranked(notification)
    same = [a for a in alerts if a.state is alerts[0].state]
    return symptom(alerts[0]) + (f" (and {len(same) - 1} more)" if len(same) > 1 else "")


def change(notification: Notification) -> str:
    """What is new since the last notification of this incident, in one sentence."""
    firing, resolved = len(notification.firing), len(notification.resolved)
    if notification.status is AlertState.RESOLVED:
        began = min(map(started, notification.alerts))
        ended = max(a.resolved_at or 0 for a in notification.alerts)
        return f"Resolved after {format_duration(max(0, ended - began) // 1000 * 1000)}."
    if notification.reason is Reason.REPEAT:
        since = min(map(started, notification.firing))
        return f"Still firing, since {moment(since)}."
    counts = f"{firing} firing" + (f", {resolved} resolved" if resolved else "")
    if notification.reason is Reason.NEW_RESOLVED:
        return f"Some alerts have resolved: {counts}."
    return f"Firing: {headline(notification)} ({counts})."
