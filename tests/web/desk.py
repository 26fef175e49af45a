"""A desk for tests: real routes and silences, and alerts that the test hands in."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from starlette.applications import Starlette
from tests.notify.alerts import BESIDE, FIRED, URL, resolved
from tests.support.server import serve

from enginewatch.config import parse_config
from enginewatch.model import Alert, Labels, Millis, freeze
from enginewatch.notify.mute import Muting
from enginewatch.notify.outbox import Entry
from enginewatch.notify.route import Route, route_tree
from enginewatch.notify.silence import Silences, silenced_by
from enginewatch.web.alertmanager_api import AlertmanagerApi
from enginewatch.web.desk import Delivery
from enginewatch.web.silences_api import SilencesApi

CONFIG = """
receivers: [{name: on-call}, {name: desk}]
route:
  receiver: desk
  routes:
    - matchers: [severity="page"]
      receiver: on-call
"""

TICKET = replace(
    FIRED,
    labels=FIRED.labels.with_(alertname="Slow", severity="ticket", deployment="batch"),
    annotations=freeze({"summary": "slow"}),
)
ALERTS = (FIRED, BESIDE, TICKET, resolved(replace(FIRED, labels=TICKET.labels)))
"""Two pages, a ticket, and one that is over."""


@dataclass
class StubDesk:
    known: Sequence[Alert] = ALERTS
    silences: Silences = field(default_factory=Silences)
    root: Route = field(default_factory=lambda: route_tree(parse_config(CONFIG, Path("e.yml"))))
    inhibited: dict[Labels, tuple[Labels, ...]] = field(default_factory=dict)
    told: tuple[Delivery, ...] = ()
    record: tuple[Entry, ...] = ()
    kept: int = 0

    def alerts(self) -> Iterable[Alert]:
        return self.known

    def muting(self, alert: Alert, now: Millis) -> Muting:
        silenced = silenced_by(self.silences.active(now), alert.labels)
        return Muting(silenced, self.inhibited.get(alert.labels, ()))

    def tree(self) -> Route:
        return self.root

    def external_url(self) -> str:
        return URL

    def receivers(self) -> Sequence[str]:
        return "on-call", "desk"

    def deliveries(self, alert: Alert) -> Iterable[Delivery]:
        return self.told

    def history(self, alert: Alert) -> Iterable[Entry]:
        return self.record

    async def keep(self) -> None:
        self.kept += 1


@contextlib.contextmanager
def serving(desk: StubDesk) -> Iterator[str]:
    """The URL of the Alertmanager-compatible API with a desk behind it."""

    def now() -> Millis:
        return time.time_ns() // 1_000_000

    reading = AlertmanagerApi(desk, now, now())
    writing = SilencesApi(desk, now, lambda _: None)
    with serve(Starlette(routes=[*reading.routes(), *writing.routes()])) as url:
        yield url
