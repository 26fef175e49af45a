"""From a configuration to what the daemon is made of, and what may not change while it runs."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from enginewatch.alerting.judge import Settings
from enginewatch.alerting.rules import RuleFile, load_rule_files
from enginewatch.config import Config, ConfigError
from enginewatch.model import Labels
from enginewatch.notify.build import build_receivers
from enginewatch.notify.notifier import Setup, set_up
from enginewatch.rulepack import rule_files


def read_rules(config: Config) -> tuple[RuleFile, ...]:
    """The rule files that a configuration names. Raises ConfigError or RuleFileError."""
    paths: tuple[Path, ...] = config.rule_paths(rule_files())
    return load_rule_files(paths)


def external_url(config: Config) -> str:
    """The daemon's own URL, as people reach it."""
    return (config.web.external_url or f"http://{config.web.listen}").rstrip("/")


def settings(config: Config) -> Settings:
    return Settings(
        interval=config.global_.evaluation_interval,
        external_labels=Labels(config.global_.external_labels),
        external_url=external_url(config),
    )


def notifications(config: Config, console: Console) -> Setup:
    """Raises ConfigError for TLS files that can't be read."""
    return set_up(config, build_receivers(config.receivers, console), external_url(config))


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
