"""From a configuration to what the daemon is made of, and what may not change while it runs."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from enginewatch.alerting.judge import Settings
from enginewatch.alerting.rules import AlertingRule, RuleFile, load_rule_files
from enginewatch.config import Config, ConfigError
from enginewatch.model import Labels
from enginewatch.notify.build import build_receivers
from enginewatch.notify.notifier import Setup, set_up
from enginewatch.notify.reach import unheard_pages
from enginewatch.notify.route import integrations
from enginewatch.rulepack import rule_files
from enginewatch.units import plural
from enginewatch.web.admin import is_loopback

SHOWN: Final = 5
"""Alerts that a sentence names."""
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


def doubts(
    config: Config, files: Sequence[RuleFile], targets: Sequence[Labels], port: int = 0
) -> Iterator[str]:
    """What is allowed, and hardly meant: a sentence each. `port` as for `external_url`."""
    if not config.receivers:
        yield "no receivers: nobody is told of an alert"
        return
    rules = [r for f in files for g in f.groups for r in g.rules if isinstance(r, AlertingRule)]
    for deployment, names in unheard_pages(config, rules, targets).items():
        shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        about = f"about {deployment}" if deployment else "without a deployment"
        yield f"{plural(len(names), 'page')} {about} would reach nobody: {shown}"
    told_elsewhere = any(
        "/console[" not in way for ways in integrations(config).values() for way in ways
    )
    if told_elsewhere and config.web.external_url is None and is_loopback(config.web.address[0]):
        yield (
            f"links in notifications lead to {external_url(config, port)}, which opens on this"
            " machine alone: set web.external_url"
        )


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
