"""Whom alerts are delivered to, in Alertmanager's vocabulary."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from enginewatch.config.http import HttpConfig, SecretUrl
from enginewatch.config.section import PositiveDuration, Section


class ConsoleConfig(Section):
    """Writes what a person wants to read to standard output."""

    send_resolved: bool = True


class WebhookConfig(SecretUrl):
    """Posts Alertmanager's webhook JSON."""

    send_resolved: bool = True
    timeout: PositiveDuration = 10_000
    http_config: HttpConfig = HttpConfig()

    elsewhere: ClassVar = {"max_alerts": "a delivery always holds all alerts of its group"}


class ReceiverConfig(Section):
    name: str = Field(min_length=1)
    console_configs: tuple[ConsoleConfig, ...] = ()
    webhook_configs: tuple[WebhookConfig, ...] = ()

    elsewhere: ClassVar = dict.fromkeys(
        ("slack_configs", "pagerduty_configs", "email_configs", "opsgenie_configs"),
        "only console_configs and webhook_configs are known so far; "
        "an Alertmanager behind a webhook can reach the rest",
    )
