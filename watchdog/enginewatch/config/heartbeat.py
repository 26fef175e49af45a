"""The dead man's switch: a URL that hears from the daemon for as long as it is well."""

from __future__ import annotations

from typing import ClassVar

from enginewatch.config.http import HttpConfig, SecretUrl
from enginewatch.config.section import PositiveDuration


class HeartbeatConfig(SecretUrl):
    """Whoever answers there raises the alarm after hearing nothing for some `interval`s."""

    interval: PositiveDuration = 60_000
    timeout: PositiveDuration = 10_000
    http_config: HttpConfig = HttpConfig()

    elsewhere: ClassVar = {"method": "it is a GET, which every such service takes"}
