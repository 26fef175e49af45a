"""Receivers' settings: one way to give each secret, and what other programs' keys mean here."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.config import (
    AlertmanagerConfig,
    ConfigError,
    PagerDutyConfig,
    SlackConfig,
    parse_config,
)


def read(entry: str) -> str:
    """What is wrong with a receiver of this one integration."""
    with pytest.raises(ConfigError) as caught:
        parse_config(f"receivers: [{{name: a, {entry}}}]", Path("e.yml"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("slack_configs: [{}]", "neither webhook nor bot"),
        ("slack_configs: [{api_url: 'https://h/x', app_token: t}]", "are both given"),
        ("slack_configs: [{app_token_env: T}]", "a bot needs a channel"),
        ("slack_configs: [{api_url_env: U, channel: '#a'}]", "a webhook has its channel in Slack"),
        ("slack_configs: [{api_url: 'ftp://h/x'}]", "not a URL"),
        ("slack_configs: [{api_url_env: U, title: x}]", "not templated"),
        ("slack_configs: [{api_url_env: U, link_names: true}]", "must not be able to ping"),
        (
            "slack_configs: [{api_url_env: U, http_config: {basic_auth: {username: u}}}]",
            "Slack takes no other credentials",
        ),
        ("pagerduty_configs: [{}]", "no routing key"),
        ("pagerduty_configs: [{service_key: k}]", "use an Events API v2 routing_key"),
        ("pagerduty_configs: [{routing_key_env: K, severity: page}]", "severity"),
        ("pagerduty_configs: [{routing_key: k, routing_key_env: K}]", "are both given"),
        ("alertmanager_configs: [{}]", "url"),
        ("alertmanager_configs: [{url: 'http://u:p@h'}]", "has credentials in it"),
        ("alertmanager_configs: [{url: 'http://h', static_configs: []}]", "the url of one"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(entry: str, said: str) -> None:
    assert said in read(entry)


def test_secrets_come_from_where_they_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    slack = SlackConfig(app_token_file=file, channel="#a")
    pagerduty = PagerDutyConfig(routing_key_file=file)
    webhook = SlackConfig(api_url_env="EW_URL")
    for secret in ("one", "two"):
        file.write_text(f"{secret}\n")
        assert slack.read_app_token() == pagerduty.read_routing_key() == secret
    monkeypatch.setenv("EW_URL", "https://hooks.example/x")
    assert webhook.read_api_url() == "https://hooks.example/x"
    monkeypatch.setenv("EW_URL", "s3cret")
    with pytest.raises(ConfigError, match=r"\$EW_URL: not a URL") as caught:
        webhook.read_api_url()
    assert "s3cret" not in str(caught.value)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    told = repr(
        (
            SlackConfig(app_token="t0ken", channel="#a"),
            SlackConfig(api_url="https://hooks.example/s3cret"),
            PagerDutyConfig(routing_key="k3y"),
        )
    )
    for secret in ("t0ken", "s3cret", "k3y"):
        assert secret not in told


def test_an_alertmanager_hears_of_an_alert_as_often_as_from_prometheus() -> None:
    assert AlertmanagerConfig(url="http://h:9093").resend_delay == 60_000


@pytest.mark.parametrize("given", ["https://h/api", "https://h/api/chat.postMessage"])
def test_slacks_api_is_named_with_or_without_the_method(given: str) -> None:
    slack = SlackConfig(app_token_env="T", channel="#a", app_url=given)
    assert slack.app_url == "https://h/api"
