"""Secrets are read when they are used, and shown nowhere."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from enginewatch.config import (
    Authorization,
    BasicAuth,
    ConfigError,
    TlsConfig,
    WebConfig,
    WebhookConfig,
    parse_config,
)


def test_a_rotated_file_is_seen(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    auth = Authorization(credentials_file=token)
    assert auth.header() == "Bearer one"
    token.write_text("two")
    assert auth.header() == "Bearer two"


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EW_TOKEN", "three")
    assert Authorization(type="Token", credentials_env="EW_TOKEN").header() == "Token three"
    monkeypatch.delenv("EW_TOKEN")
    with pytest.raises(ConfigError, match="EW_TOKEN is not set"):
        Authorization(credentials_env="EW_TOKEN").header()


def test_basic_auth() -> None:
    # From RFC 7617, section 2.
    auth = BasicAuth(username="Aladdin", password="open sesame")
    assert auth.header() == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


@pytest.mark.parametrize(
    ("content", "reason"),
    [("", "the secret is empty"), ("s3cret\r\nX-Evil: 1", "a line break or control character")],
)
def test_what_can_be_no_secret(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        Authorization(credentials_file=tmp_path / "token").header()
    assert "s3cret" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token: can't read the secret: No such file"):
        WebConfig(token_file=tmp_path / "token").read_token()


def test_no_secret_is_printed() -> None:
    config = parse_config(
        "scrape_configs:\n"
        "- {job_name: a, basic_auth: {username: u, password: s3cret}}\n"
        "- {job_name: b, authorization: {credentials: s3cret}}\n"
        'receivers: [{name: r, webhook_configs: [{url: "http://h/s3cret"}]}]\n'
        "web: {token: s3cret}\n",
        Path("e.yml"),
    )
    assert "s3cret" not in repr(config)
    assert "s3cret" not in config.model_dump_json()


@pytest.mark.parametrize(
    "url", ["http://u:s3cret@h/", "s3cret", "http://h:s3cret/", "ftp://s3cret"]
)
def test_a_bad_receiver_url_is_not_shown(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(
            f'receivers: [{{name: r, webhook_configs: [{{url: "{url}"}}]}}]', Path("e.yml")
        )
    assert "s3cret" not in str(caught.value)


def test_a_receiver_url_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://hooks.example/abc\n")
    hook = WebhookConfig(url_file=tmp_path / "url")
    assert hook.read_url() == "https://hooks.example/abc"
    (tmp_path / "url").write_text("s3cret")
    with pytest.raises(ConfigError, match="url: not a URL") as caught:
        hook.read_url()
    assert "s3cret" not in str(caught.value)


def test_tls_settings(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    client = authority.issue_cert("client")
    client.private_key_pem.write_to_path(tmp_path / "key.pem")
    client.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    config = TlsConfig(
        ca_file=tmp_path / "ca.pem", cert_file=tmp_path / "cert.pem", key_file=tmp_path / "key.pem"
    )
    context = config.context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.cert_store_stats()["x509_ca"] == 1
    assert TlsConfig(insecure_skip_verify=True).context().verify_mode == ssl.CERT_NONE
    before = config.versions()
    (tmp_path / "key.pem").unlink()
    assert config.versions() != before


@pytest.mark.parametrize(
    ("ca", "reason"), [(None, "can't use ca_file: No such file"), ("rubbish", "can't use ca_file")]
)
def test_tls_files_that_are_of_no_use(tmp_path: Path, ca: str | None, reason: str) -> None:
    if ca is not None:
        (tmp_path / "ca.pem").write_text(ca)
    with pytest.raises(ConfigError, match=reason):
        TlsConfig(ca_file=tmp_path / "ca.pem").context()
