"""From the configuration to receivers: names, secrets read late, and whom TLS does not trust."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from rich.console import Console
from tests.notify.alerts import notification
from tests.support.providers import PagerDuty, Slack
from tests.support.server import serve

from enginewatch.config import parse_config
from enginewatch.notify.build import build_receivers
from enginewatch.notify.message import DeliveryError, FailureReason, Receipt, Receiver


def built(receivers: str, folder: Path) -> list[Receiver]:
    config = parse_config(f"receivers: [{receivers}]", folder / "enginewatch.yml")
    return list(build_receivers(config.receivers, Console(file=io.StringIO())))


def send(receivers: str, folder: Path) -> Receipt:
    """Through the only integration there is."""

    async def deliver() -> Receipt:
        (receiver,) = built(receivers, folder)
        try:
            return await receiver.send(notification())
        finally:
            await receiver.close()

    return asyncio.run(deliver())


def test_every_integration_has_a_name_of_its_own(tmp_path: Path) -> None:
    found = built(
        "{name: a, console_configs: [{}], webhook_configs: [{url_env: U}],"
        " slack_configs: [{api_url_env: U}, {app_token_env: T, channel: c, send_resolved: false}],"
        " pagerduty_configs: [{routing_key_env: K}], alertmanager_configs: [{url: 'http://h'}]}",
        tmp_path,
    )
    assert [(one.name, one.send_resolved) for one in found] == [
        ("a/console[0]", True),
        ("a/webhook[0]", True),
        ("a/slack[0]", True),
        ("a/slack[1]", False),
        ("a/pagerduty[0]", True),
        ("a/alertmanager[0]", True),
    ]


def test_a_secret_that_is_not_there_yet_can_be_waited_for(tmp_path: Path) -> None:
    pagerduty = PagerDuty()
    with serve(pagerduty.app()) as url:
        receiver = (
            f"{{name: a, pagerduty_configs: [{{routing_key_file: key, url: '{url}/v2/enqueue'}}]}}"
        )
        with pytest.raises(DeliveryError, match="can't read the secret") as caught:
            send(receiver, tmp_path)
        assert caught.value.retryable
        assert caught.value.reason is FailureReason.CONFIGURATION
        (tmp_path / "key").write_text(PagerDuty.KEY)
        send(receiver, tmp_path)
    assert pagerduty.incidents


@pytest.fixture
def tls_url(tmp_path: Path) -> Iterator[str]:
    """Slack with a certificate for 127.0.0.1 of an authority in `ca.pem`."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "server.pem")
    )
    with serve(Slack().app(), ssl_certfile=str(tmp_path / "server.pem")) as url:
        yield url


@pytest.mark.parametrize(
    ("tls", "trusted"),
    [("{}", False), ("{ca_file: ca.pem}", True), ("{insecure_skip_verify: true}", True)],
)
def test_only_a_trusted_server_is_told(
    tmp_path: Path, tls_url: str, tls: str, trusted: bool
) -> None:
    receiver = (
        f"{{name: a, slack_configs: [{{api_url: '{tls_url}/webhook',"
        f" http_config: {{tls_config: {tls}}}}}]}}"
    )
    if trusted:
        assert send(receiver, tmp_path).detail == "ok"
        return
    with pytest.raises(DeliveryError) as caught:
        send(receiver, tmp_path)
    assert caught.value.reason is FailureReason.UNREACHABLE
    assert caught.value.retryable
    assert not caught.value.maybe_delivered
    assert "webhook" not in caught.value.what
