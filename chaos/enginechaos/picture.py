"""A timeline as SVG: what the clients saw, and when the alert was pending, firing, delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from enginechaos.journal import Event, Incident

WIDTH: Final = 960
_LEFT, _RIGHT, _TOP, _CURVE = 12, 12, 18, 90
_LANE: Final = 22
_STEPS: Final = (
    ("steady", "steady state", "#4b5563"),
    ("injected", "fault", "#b91c1c"),
    ("verified", "verified", "#b91c1c"),
    ("pending", "pending", "#b45309"),
    ("firing", "firing", "#c2410c"),
    ("delivered", "delivered", "#7c3aed"),
    ("aborted", "aborted", "#b91c1c"),
    ("undone", "undone", "#1d4ed8"),
    ("resolved", "resolved", "#15803d"),
    ("resolve_delivered", "resolve delivered", "#15803d"),
    ("steady_again", "steady again", "#4b5563"),
)


@dataclass(frozen=True)
class _Scale:
    """Unix seconds to pixels; figures are told in seconds from `zero`, the injection."""

    start: float
    end: float
    zero: float

    def x(self, at: float) -> float:
        span = max(self.end - self.start, 1.0)
        share = min(max((at - self.start) / span, 0.0), 1.0)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def told(self, at: float) -> str:
        return f"{at - self.zero:+.1f} s"


def timeline(incident: Incident) -> str:
    """An `<svg>` of its own; empty when nothing happened."""
    events = {event.what: event for event in reversed(incident.events)}
    steps = [(events[what], name, hue) for what, name, hue in _STEPS if what in events]
    if not steps:
        return ""
    points = [(float(at), float(value)) for at, value in incident.signal.get("points", ())]
    times = [event.at for event, _, _ in steps] + [at for at, _ in points]
    zero = events["injected"].at if "injected" in events else min(times)
    scale = _Scale(min(times), max(times), zero)
    height = _TOP + _CURVE + 14 + _LANE * len(steps)
    parts = [
        *_curve(points, scale, str(incident.signal.get("name", ""))),
        *_span(events, scale, height),
        *_lanes(steps, scale),
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="timeline of {escape(incident.fault, quote=True)}">{"".join(parts)}</svg>'
    )


def _curve(points: Sequence[tuple[float, float]], scale: _Scale, name: str) -> Iterator[str]:
    if len(points) < 2:
        return
    most = max(value for _, value in points) or 1.0
    base = _TOP + _CURVE
    path = " ".join(f"{scale.x(at):.1f},{base - value / most * _CURVE:.1f}" for at, value in points)
    yield f'<polyline points="{path}" fill="none" stroke="#0f766e" stroke-width="1.5"/>'
    yield f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}" stroke="#d1d5db"/>'
    yield f'<text x="{_LEFT}" y="12" fill="#0f766e">{escape(name)}, at most {most:.0f}</text>'


def _span(events: dict[str, Event], scale: _Scale, height: int) -> Iterator[str]:
    """The time in which the fault was there, as a band."""
    if "injected" not in events:
        return
    left = scale.x(events["injected"].at)
    right = scale.x(events["undone"].at) if "undone" in events else float(WIDTH - _RIGHT)
    yield (
        f'<rect x="{left:.1f}" y="{_TOP}" width="{max(right - left, 1):.1f}" '
        f'height="{height - _TOP}" fill="#b91c1c" opacity="0.07"/>'
    )


def _lanes(steps: Sequence[tuple[Event, str, str]], scale: _Scale) -> Iterator[str]:
    for lane, (event, name, hue) in enumerate(steps):
        x, y = scale.x(event.at), _TOP + _CURVE + 24 + lane * _LANE
        # Beside the dot, on whichever side there is room.
        left = x > WIDTH * 0.7
        anchor, dx = ("end", -8) if left else ("start", 8)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{y}" stroke="{hue}" opacity="0.35"/>'
        )
        yield f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{hue}"/>'
        yield (
            f'<text x="{x + dx:.1f}" y="{y + 4}" text-anchor="{anchor}" fill="{hue}">'
            f"{escape(name)} {escape(scale.told(event.at))}"
            f"<title>{escape(event.note)}</title></text>"
        )
