"""The configuration file: what is watched, how it is judged, and who is told."""

from enginewatch.config.canary import CanaryConfig
from enginewatch.config.collectors import (
    EngineProcessConfig,
    NcclRasConfig,
    NvmlConfig,
    ProcessesConfig,
)
from enginewatch.config.errors import ConfigError, ConfigFileError
from enginewatch.config.heartbeat import HeartbeatConfig
from enginewatch.config.http import Authorization, BasicAuth, HttpConfig, SecretUrl, TlsConfig
from enginewatch.config.load import load_config, parse_config, validated
from enginewatch.config.logs import JournalConfig, KernelLogConfig, LogFilesConfig
from enginewatch.config.matchers import parse_matchers
from enginewatch.config.preflight import PreflightConfig
from enginewatch.config.presets import PRESETS, Preset
from enginewatch.config.probe import GeneralProbeConfig, ProbeConfig
from enginewatch.config.receivers import (
    AlertmanagerConfig,
    ConsoleConfig,
    PagerDutyConfig,
    ReceiverConfig,
    SlackConfig,
    WebhookConfig,
)
from enginewatch.config.root import SHIPPED, Config, GlobalConfig, StorageConfig, WebConfig
from enginewatch.config.routing import GROUP_BY_ALL, InhibitRuleConfig, RouteConfig
from enginewatch.config.scrape import FileSdConfig, ScrapeConfig, StaticConfig, address_problem
from enginewatch.config.section import matching, read_text
from enginewatch.config.timeintervals import Span, TimeInterval, TimePeriod, TimeRange
from enginewatch.config.tree import read_yaml
from enginewatch.config.urls import config_for_urls

__all__ = [
    "GROUP_BY_ALL",
    "PRESETS",
    "SHIPPED",
    "AlertmanagerConfig",
    "Authorization",
    "BasicAuth",
    "CanaryConfig",
    "Config",
    "ConfigError",
    "ConfigFileError",
    "ConsoleConfig",
    "EngineProcessConfig",
    "FileSdConfig",
    "GeneralProbeConfig",
    "GlobalConfig",
    "HeartbeatConfig",
    "HttpConfig",
    "InhibitRuleConfig",
    "JournalConfig",
    "KernelLogConfig",
    "LogFilesConfig",
    "NcclRasConfig",
    "NvmlConfig",
    "PagerDutyConfig",
    "PreflightConfig",
    "Preset",
    "ProbeConfig",
    "ProcessesConfig",
    "ReceiverConfig",
    "RouteConfig",
    "ScrapeConfig",
    "SecretUrl",
    "SlackConfig",
    "Span",
    "StaticConfig",
    "StorageConfig",
    "TimeInterval",
    "TimePeriod",
    "TimeRange",
    "TlsConfig",
    "WebConfig",
    "WebhookConfig",
    "address_problem",
    "config_for_urls",
    "load_config",
    "matching",
    "parse_config",
    "parse_matchers",
    "read_text",
    "read_yaml",
    "validated",
]
