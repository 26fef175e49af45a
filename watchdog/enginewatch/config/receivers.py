"""Whom alerts are delivered to, in Alertmanager's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from enginewatch.config.errors import ConfigError
from enginewatch.config.http import HttpConfig, SecretUrl
from enginewatch.config.section import (
    ConfigPath,
    PositiveDuration,
    Section,
    WebUrl,
    check_url,
    fault,
    one_of,
    read_secret,
)

MINUTE: Final = 60_000

_WRITTEN: Final = "what receivers say is not templated; rules' annotations are"

_ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(
        (
            *("discord_configs", "email_configs", "msteams_configs", "opsgenie_configs"),
            *("pushover_configs", "sns_configs", "telegram_configs", "victorops_configs"),
            *("webex_configs", "wechat_configs"),
        ),
        "not supported; an Alertmanager behind alertmanager_configs can reach it",
    )
)


class ConsoleConfig(Section):
    """Writes what a person wants to read to standard output."""

    send_resolved: bool = True


class WebhookConfig(SecretUrl):
    """Posts Alertmanager's webhook JSON."""

    send_resolved: bool = True
    timeout: PositiveDuration = 10_000
    http_config: HttpConfig = HttpConfig()

    elsewhere: ClassVar = {"max_alerts": "a delivery always holds all alerts of its group"}


def _without_method(url: str) -> str:
    """Alertmanager's `app_url` names the method too; here two methods are called."""
    return url.rstrip("/").removesuffix("/chat.postMessage")


class SlackConfig(Section):
    """An incoming webhook (`api_url`), or a bot (`app_token` and `channel`), which is better: it
    keeps one message an incident up to date, where a webhook can only add messages."""

    send_resolved: bool = True
    api_url: SecretStr | None = None
    api_url_file: ConfigPath | None = None
    api_url_env: str | None = None
    app_token: SecretStr | None = None
    app_token_file: ConfigPath | None = None
    app_token_env: str | None = None
    app_url: Annotated[WebUrl, AfterValidator(_without_method)] = "https://slack.com/api"
    channel: str | None = None
    timeout: PositiveDuration = 10_000
    http_config: HttpConfig = HttpConfig()

    elsewhere: ClassVar = {
        **dict.fromkeys(("title", "text", "pretext", "fallback", "fields", "color"), _WRITTEN),
        **dict.fromkeys(("title_link", "actions", "footer", "blocks"), _WRITTEN),
        **dict.fromkeys(("username", "icon_emoji", "icon_url"), "they are set in the Slack app"),
        "update_message": "a bot always updates its message: use app_token and channel",
        "link_names": "text from outside must not be able to ping anybody",
    }

    @model_validator(mode="after")
    def _webhook_or_bot(self) -> Self:
        urls, tokens = _ways("api_url"), _ways("app_token")
        one_of(self, *urls, *tokens)
        if all(getattr(self, each) is None for each in (*urls, *tokens)):
            raise fault("neither webhook nor bot", "give api_url_file, or app_token_file")
        if self.api_url is not None:
            check_url(self.api_url.get_secret_value())
        if self.is_bot and not self.channel:
            raise fault("a bot needs a channel", 'its id, or "#name"', ("channel",))
        if not self.is_bot and self.channel:
            raise fault("a webhook has its channel in Slack", "leave it out", ("channel",))
        if self.http_config.authorization or self.http_config.basic_auth:
            raise fault("Slack takes no other credentials", "leave them out", ("http_config",))
        return self

    @property
    def is_bot(self) -> bool:
        return any(getattr(self, each) is not None for each in _ways("app_token"))

    def read_api_url(self) -> str:
        """The webhook's URL as it is now. Raises ConfigError, without the URL in it."""
        url = read_secret(self.api_url, self.api_url_file, self.api_url_env) or ""
        if not url.startswith(("http://", "https://")):
            where = str(self.api_url_file or f"${self.api_url_env}")
            raise ConfigError("not a URL", where=where, hint="https://hooks.slack.com/services/…")
        return url

    def read_app_token(self) -> str:
        """The bot's token as it is now. Raises ConfigError."""
        return read_secret(self.app_token, self.app_token_file, self.app_token_env) or ""


class PagerDutyConfig(Section):
    """Events API v2; `routing_key` is the integration key of the service."""

    send_resolved: bool = True
    routing_key: SecretStr | None = None
    routing_key_file: ConfigPath | None = None
    routing_key_env: str | None = None
    url: WebUrl = "https://events.pagerduty.com/v2/enqueue"
    severity: Literal["critical", "error", "warning", "info"] | None = None
    """By the alert's own if not given: page is critical, ticket warning, info info."""
    timeout: PositiveDuration = 10_000
    http_config: HttpConfig = HttpConfig()

    elsewhere: ClassVar = {
        **dict.fromkeys(("service_key", "service_key_file"), "use an Events API v2 routing_key"),
        **dict.fromkeys(("client", "client_url", "description", "details"), _WRITTEN),
        **dict.fromkeys(("images", "links", "source"), _WRITTEN),
        **dict.fromkeys(("class", "component", "group"), "it is taken from the alert's labels"),
    }

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        keys = _ways("routing_key")
        one_of(self, *keys)
        if all(getattr(self, each) is None for each in keys):
            raise fault("no routing key", "give routing_key_file or routing_key_env")
        return self

    def read_routing_key(self) -> str:
        """The key as it is now. Raises ConfigError."""
        return read_secret(self.routing_key, self.routing_key_file, self.routing_key_env) or ""


class AlertmanagerConfig(Section):
    """Hands alerts to an Alertmanager, which groups, silences and routes them once more."""

    send_resolved: bool = True
    url: WebUrl
    """Without `/api/v2/alerts`; each member of a cluster is given an entry of its own."""
    resend_delay: PositiveDuration = MINUTE
    """What fires is sent again this often; it ends there when it was not for four times as long."""
    timeout: PositiveDuration = 10_000
    http_config: HttpConfig = HttpConfig()

    elsewhere: ClassVar = {
        **dict.fromkeys(("static_configs", "file_sd_configs"), "give the url of one Alertmanager"),
        **dict.fromkeys(("scheme", "path_prefix"), "they are part of the url"),
        "api_version": "v2 is spoken",
        "resolve_timeout": "alerts are sent again every resend_delay, and end 4 times that later",
    }


class ReceiverConfig(Section):
    name: str = Field(min_length=1)
    console_configs: tuple[ConsoleConfig, ...] = ()
    webhook_configs: tuple[WebhookConfig, ...] = ()
    slack_configs: tuple[SlackConfig, ...] = ()
    pagerduty_configs: tuple[PagerDutyConfig, ...] = ()
    alertmanager_configs: tuple[AlertmanagerConfig, ...] = ()

    elsewhere: ClassVar = _ELSEWHERE


def _ways(secret: str) -> tuple[str, str, str]:
    """The keys that a secret can be given by."""
    return secret, f"{secret}_file", f"{secret}_env"
