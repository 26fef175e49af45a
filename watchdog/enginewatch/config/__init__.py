"""The configuration file: what is watched, how it is judged, and who is told."""

from enginewatch.config.errors import ConfigError, ConfigFileError
from enginewatch.config.http import Authorization, BasicAuth, HttpConfig, TlsConfig
from enginewatch.config.load import load_config, parse_config, validated
from enginewatch.config.presets import PRESETS, Preset
from enginewatch.config.receivers import ConsoleConfig, ReceiverConfig, WebhookConfig
from enginewatch.config.root import SHIPPED, Config, GlobalConfig, StorageConfig, WebConfig
from enginewatch.config.scrape import FileSdConfig, ScrapeConfig, StaticConfig, address_problem
from enginewatch.config.section import matching, read_text
from enginewatch.config.tree import read_yaml
from enginewatch.config.urls import config_for_urls

__all__ = [
    "PRESETS",
    "SHIPPED",
    "Authorization",
    "BasicAuth",
    "Config",
    "ConfigError",
    "ConfigFileError",
    "ConsoleConfig",
    "FileSdConfig",
    "GlobalConfig",
    "HttpConfig",
    "Preset",
    "ReceiverConfig",
    "ScrapeConfig",
    "StaticConfig",
    "StorageConfig",
    "TlsConfig",
    "WebConfig",
    "WebhookConfig",
    "address_problem",
    "config_for_urls",
    "load_config",
    "matching",
    "parse_config",
    "read_text",
    "read_yaml",
    "validated",
]
