"""Scrape jobs, in Prometheus' vocabulary."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from enginewatch.config.http import HttpConfig
from enginewatch.config.presets import PRESETS
from enginewatch.config.probe import ProbeConfig
from enginewatch.config.section import (
    ConfigPath,
    PositiveDuration,
    Section,
    Size,
    TargetLabels,
    fault,
)

_NO_RELABELING: Final = (
    "relabelling is not supported: set labels in static_configs or file_sd_configs; series that "
    "no rule names are dropped without being told"
)
_NO_DISCOVERY: Final = "discovery is by static_configs and file_sd_configs"
_NO_TIMESTAMPS: Final = "timestamps on pages are not used: a sample has the time of its scrape"
_DISCOVERIES: Final = ("kubernetes", "consul", "dns", "http", "ec2", "docker", "gce", "azure")


class StaticConfig(Section):
    """Targets, as host:port, and the labels that they share."""

    targets: tuple[str, ...]
    labels: TargetLabels = Field(default_factory=dict)

    @model_validator(mode="after")
    def _addresses(self) -> Self:
        for index, target in enumerate(self.targets):
            problem = address_problem(target)
            if problem:
                raise fault(*problem, at=("targets", index))
        return self


class FileSdConfig(Section):
    """Files with lists of StaticConfig, read again when they change; the name may be a glob."""

    files: tuple[ConfigPath, ...]
    refresh_interval: PositiveDuration = 30_000

    @model_validator(mode="after")
    def _formats(self) -> Self:
        for index, file in enumerate(self.files):
            at = ("files", index)
            if file.suffix not in {".json", ".yml", ".yaml"}:
                raise fault(f"{file.name!r} is not a target file", ".json, .yml or .yaml", at)
            if "*" in str(file.parent):
                raise fault(f"a * in the name of a folder: {file}", "only in the file's own", at)
        return self


class ScrapeConfig(HttpConfig):
    """One job. What is None has a default that depends on other settings."""

    job_name: str = Field(min_length=1)
    runtime: str | None = None
    """Which engine the targets are: sets the label, and the default metrics_path."""
    deployment: str | None = None
    """What alerts are grouped and paged by; the job's name if not given."""
    metrics_path: str | None = None
    scheme: Literal["http", "https"] = "http"
    params: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    scrape_interval: PositiveDuration | None = None
    scrape_timeout: PositiveDuration | None = None
    probe: ProbeConfig | None = None
    honor_labels: bool = False
    body_size_limit: Size | None = Field(None, ge=0)
    line_limit: int | None = Field(None, ge=0)
    line_length_limit: int | None = Field(None, ge=0)
    sample_limit: int | None = Field(None, ge=0)
    label_limit: int | None = Field(None, ge=0)
    label_name_length_limit: int | None = Field(None, ge=0)
    label_value_length_limit: int | None = Field(None, ge=0)
    static_configs: tuple[StaticConfig, ...] = ()
    file_sd_configs: tuple[FileSdConfig, ...] = ()

    elsewhere: ClassVar = {
        **HttpConfig.elsewhere,
        "relabel_configs": _NO_RELABELING,
        "metric_relabel_configs": _NO_RELABELING,
        "honor_timestamps": _NO_TIMESTAMPS,
        "track_timestamps_staleness": _NO_TIMESTAMPS,
        "scrape_protocols": "text and OpenMetrics are told apart by the answer",
        "fallback_scrape_protocol": "a page without a Content-Type is read as text",
        **{f"{kind}_sd_configs": _NO_DISCOVERY for kind in _DISCOVERIES},
    }

    @model_validator(mode="after")
    def _path(self) -> Self:
        if self.metrics_path is not None and not self.metrics_path.startswith("/"):
            raise fault(f"{self.metrics_path!r} does not start with /", at=("metrics_path",))
        return self

    @property
    def path(self) -> str:
        preset = PRESETS.get(self.runtime or "")
        return self.metrics_path or (preset.metrics_path if preset else "/metrics")


def address_problem(target: str) -> tuple[str, str] | None:
    """What is wrong with a target's address, and what would be right."""
    if "@" in target:
        return "the target has credentials in it", "move them to basic_auth of the job"
    if "://" in target or "/" in target:
        return f"{target!r} is not host:port", "put the rest in scheme and metrics_path of the job"
    host, colon, port = target.rpartition(":")
    if not target or target != "".join(target.split()) or (colon and not host):
        return f"{target!r} is not host:port", "like gpu1.example:8000 or [::1]:8000"
    if colon and not target.endswith("]") and not (port.isascii() and port.isdigit()):
        return f"{port!r} is not a port: {target!r}", "like gpu1.example:8000"
    if colon and port.isdigit() and not 0 < int(port) < 65536:
        return f"port {port} is out of range: {target!r}", "1 to 65535"
    return None
