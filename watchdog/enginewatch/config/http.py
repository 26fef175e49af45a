"""How a server is spoken to: credentials and TLS, in Prometheus' vocabulary."""

from __future__ import annotations

import base64
import ssl
from typing import ClassVar, Self

from pydantic import SecretStr, model_validator

from enginewatch.config.errors import ConfigError
from enginewatch.config.section import (
    ConfigPath,
    Section,
    check_url,
    fault,
    one_of,
    read_secret,
)


class Authorization(Section):
    """An Authorization header other than Basic; by default a bearer token."""

    type: str = "Bearer"
    credentials: SecretStr | None = None
    credentials_file: ConfigPath | None = None
    credentials_env: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.type.strip().lower() == "basic":
            raise fault("authorization can't be of type Basic", "use basic_auth", ("type",))
        if not (self.type.isascii() and self.type.isprintable() and self.type.strip()):
            raise fault("not an authorization type", at=("type",))
        one_of(self, "credentials", "credentials_file", "credentials_env")
        if (self.credentials, self.credentials_file, self.credentials_env) == (None, None, None):
            raise fault("no credentials", "give credentials_file or credentials_env")
        return self

    def header(self) -> str:
        """The header's value. Raises ConfigError."""
        secret = read_secret(self.credentials, self.credentials_file, self.credentials_env) or ""
        if not (secret.isascii() and secret.isprintable()):
            raise ConfigError("authorization: the credentials have characters no header can have")
        return f"{self.type.strip()} {secret}"


class BasicAuth(Section):
    username: str
    password: SecretStr | None = None
    password_file: ConfigPath | None = None
    password_env: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        one_of(self, "password", "password_file", "password_env")
        if ":" in self.username:
            raise fault("a user name can't have a colon in it", at=("username",))
        return self

    def header(self) -> str:
        """The header's value. Raises ConfigError."""
        secret = read_secret(self.password, self.password_file, self.password_env) or ""
        pair = f"{self.username}:{secret}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


class TlsConfig(Section):
    """Whom to trust (`ca_file`; the system's authorities when not given), and who we are."""

    ca_file: ConfigPath | None = None
    cert_file: ConfigPath | None = None
    key_file: ConfigPath | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False

    elsewhere: ClassVar = {
        "ca": "put it in a file and name that with ca_file",
        "cert": "put it in a file and name that with cert_file",
        "key": "put it in a file and name that with key_file",
        "min_version": "TLS 1.2 is the least",
    }

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.cert_file is None) is not (self.key_file is None):
            raise fault("cert_file and key_file are only of use together")
        return self

    def context(self) -> ssl.SSLContext:
        """Settings for a TLS connection, from the files as they are now. Raises ConfigError."""
        context = ssl.create_default_context()
        if self.ca_file is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                context.load_verify_locations(self.ca_file)
            except OSError as failure:
                raise _unusable("ca_file", str(self.ca_file), failure) from None
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file)
            except OSError as failure:
                raise _unusable("cert_file or key_file", str(self.cert_file), failure) from None
        if self.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def versions(self) -> tuple[int, ...]:
        """What changes when one of the files does: a client is built anew then."""
        files = (self.ca_file, self.cert_file, self.key_file)
        return tuple(
            file.stat().st_mtime_ns if file is not None and file.exists() else 0 for file in files
        )


class HttpConfig(Section):
    """Client settings; scrape jobs have these keys themselves, receivers under `http_config`."""

    authorization: Authorization | None = None
    basic_auth: BasicAuth | None = None
    tls_config: TlsConfig = TlsConfig()
    follow_redirects: bool = False

    elsewhere: ClassVar = {
        "bearer_token": "use authorization: {credentials_file: …}",
        "bearer_token_file": "use authorization: {credentials_file: …}",
        "oauth2": "OAuth is not supported; let a sidecar write the token to credentials_file",
        "proxy_url": "proxies are not supported",
        "proxy_from_environment": "proxies are not supported",
        "enable_http2": "HTTP/1.1 is spoken",
    }

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        one_of(self, "authorization", "basic_auth")
        return self

    def auth_header(self) -> str | None:
        """The Authorization header to send now, if any. Raises ConfigError."""
        chosen = self.authorization or self.basic_auth
        return chosen.header() if chosen else None


class SecretUrl(Section):
    """A URL that counts as a secret: providers tell their customers apart by it."""

    url: SecretStr | None = None
    url_file: ConfigPath | None = None
    url_env: str | None = None

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        one_of(self, "url", "url_file", "url_env")
        if self.url is not None:
            check_url(self.url.get_secret_value())
        elif self.url_file is None and self.url_env is None:
            raise fault("no URL", "give url, url_file or url_env")
        return self

    def read_url(self) -> str:
        """What it is now. Raises ConfigError, without the URL in it."""
        url = read_secret(self.url, self.url_file, self.url_env) or ""
        if not url.startswith(("http://", "https://")):
            raise ConfigError(
                "not a URL",
                where=str(self.url_file or f"${self.url_env}"),
                hint="http://… or https://…",
            )
        return url


def _unusable(key: str, file: str, failure: OSError) -> ConfigError:
    reason = failure.strerror or str(failure)
    if isinstance(failure, ssl.SSLError):
        reason = failure.reason or "not in PEM format"
    return ConfigError(f"tls_config: can't use {key}: {reason}", where=file)
