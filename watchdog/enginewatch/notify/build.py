"""From the configuration to receivers that can be sent to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import httpx
from rich.console import Console

from enginewatch.config import (
    AlertmanagerConfig,
    ConfigError,
    HttpConfig,
    PagerDutyConfig,
    ReceiverConfig,
    SlackConfig,
    WebhookConfig,
)
from enginewatch.model import Millis
from enginewatch.notify.alertmanager import LIVES, Alertmanager
from enginewatch.notify.console import ConsoleReceiver
from enginewatch.notify.message import DeliveryError, FailureReason, Receiver
from enginewatch.notify.pagerduty import PagerDuty
from enginewatch.notify.slack import SlackBot, SlackWebhook
from enginewatch.notify.webhook import Webhook

T = TypeVar("T")


def build_receivers(configs: Iterable[ReceiverConfig], console: Console) -> Iterator[Receiver]:
    """Every integration of every receiver. Raises ConfigError for TLS files that can't be read."""
    for config in configs:
        for number, one in enumerate(config.console_configs):
            yield ConsoleReceiver(_name(config.name, "console", number), console, one.send_resolved)
        for number, hook in enumerate(config.webhook_configs):
            yield _webhook(_name(config.name, "webhook", number), hook)
        for number, slack in enumerate(config.slack_configs):
            yield _slack(_name(config.name, "slack", number), slack)
        for number, pagerduty in enumerate(config.pagerduty_configs):
            yield _pagerduty(_name(config.name, "pagerduty", number), pagerduty)
        for number, alertmanager in enumerate(config.alertmanager_configs):
            yield _alertmanager(_name(config.name, "alertmanager", number), alertmanager)


def _name(receiver: str, kind: str, number: int) -> str:
    """`on-call/webhook[0]`: the integration that logs, metrics and errors speak of."""
    return f"{receiver}/{kind}[{number}]"


def _webhook(name: str, config: WebhookConfig) -> Webhook:
    return Webhook(
        name,
        _read(name, config.read_url),
        _client(config.http_config, config.timeout),
        config.send_resolved,
        _headers(name, config.http_config),
    )


def _slack(name: str, config: SlackConfig) -> Receiver:
    client = _client(config.http_config, config.timeout)
    if not config.is_bot:
        return SlackWebhook(name, _read(name, config.read_api_url), client, config.send_resolved)
    return SlackBot(
        name,
        config.app_url,
        _read(name, config.read_app_token),
        config.channel or "",
        client,
        config.send_resolved,
    )


def _pagerduty(name: str, config: PagerDutyConfig) -> PagerDuty:
    return PagerDuty(
        name,
        config.url,
        _read(name, config.read_routing_key),
        _client(config.http_config, config.timeout),
        config.send_resolved,
        config.severity,
        _headers(name, config.http_config),
    )


def _alertmanager(name: str, config: AlertmanagerConfig) -> Alertmanager:
    return Alertmanager(
        name,
        config.url,
        LIVES * config.resend_delay,
        _client(config.http_config, config.timeout),
        config.send_resolved,
        _headers(name, config.http_config),
    )


def _client(http: HttpConfig, timeout: Millis) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        verify=http.tls_config.context(),
        timeout=timeout / 1000,
        follow_redirects=http.follow_redirects,
        trust_env=False,
    )


def _headers(receiver: str, http: HttpConfig) -> Callable[[], dict[str, str]]:
    authorization = _read(receiver, http.auth_header)

    def headers() -> dict[str, str]:
        value = authorization()
        return {} if value is None else {"Authorization": value}

    return headers


def _read(receiver: str, secret: Callable[[], T]) -> Callable[[], T]:
    """`secret`, whose ConfigError is a failed delivery: somebody may be about to put it right."""

    def read() -> T:
        try:
            return secret()
        except ConfigError as failure:
            raise DeliveryError(
                str(failure), where=receiver, retryable=True, reason=FailureReason.CONFIGURATION
            ) from None

    return read
