"""The receivers of a run behind one address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette

from enginechaos.receivers.inbox import Inbox
from enginechaos.receivers.pagerduty import PagerDuty
from enginechaos.receivers.server import Server
from enginechaos.receivers.slack import Slack
from enginechaos.receivers.webhook import Webhook


class Receivers:
    """`names` are those that the watchdog is expected to page; all of them are served."""

    def __init__(
        self,
        names: Sequence[str] = ("webhook", "slack", "pagerduty"),
        host: str = "127.0.0.1",
        port: int = 0,
    ):
        self.names = tuple(names)
        self.inbox = Inbox()
        self.webhook = Webhook(self.inbox)
        self.slack = Slack(self.inbox)
        self.pagerduty = PagerDuty(self.inbox)
        routes = [r for each in (self.webhook, self.slack, self.pagerduty) for r in each.routes()]
        self._server = Server(Starlette(routes=routes), host, port)

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def settings(self, name: str) -> dict[str, Any]:
        """A receiver of the watchdog's configuration that pages all of them."""
        made: dict[str, Any] = {"name": name}
        for each in (self.webhook, self.slack, self.pagerduty):
            if each.name in self.names:
                made |= each.settings(self.url)
        return made
