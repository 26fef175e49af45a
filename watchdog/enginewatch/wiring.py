"""From a configuration to what the daemon is made of, and what may not change while it runs."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from rich.console import Console

from enginewatch.alerting.judge import Settings
from enginewatch.alerting.rules import RuleFile, load_rule_files
from enginewatch.config import Config, ConfigError
from enginewatch.model import Labels
from enginewatch.notify.build import build_receivers
from enginewatch.notify.notifier import Setup, set_up
from enginewatch.rulepack import rule_files

EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - they are looked for, not bound


def read_rules(config: Config) -> tuple[RuleFile, ...]:
    """The rule files that a configuration names. Raises ConfigError or RuleFileError."""
    paths: tuple[Path, ...] = config.rule_paths(rule_files())
    return load_rule_files(paths)


def external_url(config: Config, port: int = 0) -> str:
    """The daemon's own URL, as people reach it: this machine's name where it listens on all
    addresses. `port` is the one that the system gave, where it was asked for any."""
    if config.web.external_url is not None:
        return config.web.external_url.rstrip("/")
    host, given = config.web.address
    if host in EVERYWHERE:
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{given or port}"


def settings(config: Config, port: int = 0) -> Settings:
    return Settings(
        interval=config.global_.evaluation_interval,
        external_labels=Labels(config.global_.external_labels),
        external_url=external_url(config, port),
    )


def notifications(config: Config, console: Console, port: int = 0) -> Setup:
    """Raises ConfigError for TLS files that can't be read."""
    return set_up(config, build_receivers(config.receivers, console), external_url(config, port))


def unchangeable(before: Config, after: Config) -> None:
    """Raises ConfigError for a change that needs a restart."""
    for name, old, new in (
        ("web.listen", before.web.listen, after.web.listen),
        ("storage.path", before.storage.path, after.storage.path),
    ):
        if old != new:
            raise ConfigError(
                f"can't change from {old} to {new} while running", where=name, hint="restart for it"
            )
