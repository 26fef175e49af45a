"""A desk for tests: real routes and silences, and alerts that the test hands in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.notify.alerts import URL

from enginewatch.config import parse_config
from enginewatch.model import Alert, Labels, Millis
from enginewatch.notify.route import Route, route_tree
from enginewatch.notify.silence import Silences
from enginewatch.web.desk import Delivery

CONFIG = """
receivers: [{name: on-call}, {name: desk}]
route:
  receiver: desk
  routes:
    - matchers: [severity="page"]
      receiver: on-call
"""


class Muting(NamedTuple):
    silenced_by: tuple[str, ...] = ()
    inhibited_by: tuple[Labels, ...] = ()
    quiet_by: tuple[str, ...] = ()


@dataclass
class StubDesk:
    known: list[Alert]
    silences: Silences = field(default_factory=Silences)
    root: Route = field(default_factory=lambda: route_tree(parse_config(CONFIG, Path("e.yml"))))
    inhibited: dict[Labels, tuple[Labels, ...]] = field(default_factory=dict)
    told: tuple[Delivery, ...] = ()
    kept: int = 0

    def alerts(self) -> Iterable[Alert]:
        return self.known

    def muting(self, alert: Alert, now: Millis) -> Muting:
        silenced = self.silences.silenced_by(alert.labels, now)
        return Muting(silenced, self.inhibited.get(alert.labels, ()))

    def tree(self) -> Route:
        return self.root

    def external_url(self) -> str:
        return URL

    def receivers(self) -> Sequence[str]:
        return "on-call", "desk"

    def deliveries(self, alert: Alert) -> Iterable[Delivery]:
        return self.told

    async def keep(self) -> None:
        self.kept += 1
