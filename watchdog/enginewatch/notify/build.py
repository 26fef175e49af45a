"""From the configuration to receivers that can be sent to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import httpx
from rich.console import Console

from enginewatch.config import ConfigError, ReceiverConfig, WebhookConfig
from enginewatch.notify.console import ConsoleReceiver
from enginewatch.notify.message import DeliveryError, FailureReason, Receiver
from enginewatch.notify.webhook import Webhook


def build_receivers(configs: Iterable[ReceiverConfig], console: Console) -> Iterator[Receiver]:
    """Every integration of every receiver. Raises ConfigError for TLS files that can't be read."""
    for config in configs:
        for number, one in enumerate(config.console_configs):
            yield ConsoleReceiver(_name(config.name, "console", number), console, one.send_resolved)
        for number, hook in enumerate(config.webhook_configs):
            yield _webhook(_name(config.name, "webhook", number), hook)


def _name(receiver: str, kind: str, number: int) -> str:
    """`on-call/webhook[0]`: the integration that logs, metrics and errors speak of."""
    return f"{receiver}/{kind}[{number}]"


def _webhook(name: str, config: WebhookConfig) -> Webhook:
    http = config.http_config
    client = httpx.AsyncClient(
        verify=http.tls_config.context(),
        timeout=config.timeout / 1000,
        follow_redirects=http.follow_redirects,
        trust_env=False,
    )

    def url() -> str:
        try:
            return config.read_url()
        except ConfigError as failure:
            raise _unreadable(name, failure) from None

    def headers() -> dict[str, str]:
        try:
            authorization = http.auth_header()
        except ConfigError as failure:
            raise _unreadable(name, failure) from None
        return {} if authorization is None else {"Authorization": authorization}

    return Webhook(name, url, client, config.send_resolved, headers)


def _unreadable(receiver: str, failure: ConfigError) -> DeliveryError:
    """A secret that can't be read now; somebody may be about to put it right."""
    return DeliveryError(
        str(failure), where=receiver, retryable=True, reason=FailureReason.CONFIGURATION
    )
