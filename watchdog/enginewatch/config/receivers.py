"""Whom alerts are delivered to, in Alertmanager's vocabulary."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, SecretStr, model_validator

from enginewatch.config.errors import ConfigError
from enginewatch.config.http import HttpConfig
from enginewatch.config.section import (
    ConfigPath,
    PositiveDuration,
    Section,
    check_url,
    fault,
    one_of,
    read_secret,
)


class ConsoleConfig(Section):
    """Writes what a person wants to read to standard output."""

    send_resolved: bool = True


class WebhookConfig(Section):
    """Posts Alertmanager's webhook JSON. The URL counts as a secret: it often holds a token."""

    url: SecretStr | None = None
    url_file: ConfigPath | None = None
    url_env: str | None = None
    send_resolved: bool = True
    timeout: PositiveDuration = 10_000
    http_config: HttpConfig = HttpConfig()

    elsewhere: ClassVar = {"max_alerts": "a delivery always holds all alerts of its group"}

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        one_of(self, "url", "url_file", "url_env")
        if self.url is not None:
            check_url(self.url.get_secret_value())
        elif self.url_file is None and self.url_env is None:
            raise fault("no URL", "give url, url_file or url_env")
        return self

    def read_url(self) -> str:
        """Where to post to now. Raises ConfigError, without the URL in it."""
        url = read_secret(self.url, self.url_file, self.url_env) or ""
        if not url.startswith(("http://", "https://")):
            raise ConfigError(
                "not a URL",
                where=str(self.url_file or f"${self.url_env}"),
                hint="http://… or https://…",
            )
        return url


class ReceiverConfig(Section):
    name: str = Field(min_length=1)
    console_configs: tuple[ConsoleConfig, ...] = ()
    webhook_configs: tuple[WebhookConfig, ...] = ()

    elsewhere: ClassVar = dict.fromkeys(
        ("slack_configs", "pagerduty_configs", "email_configs", "opsgenie_configs"),
        "only console_configs and webhook_configs are known so far; "
        "an Alertmanager behind a webhook can reach the rest",
    )
