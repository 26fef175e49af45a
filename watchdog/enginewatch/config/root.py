"""The whole configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from enginewatch.config.canary import CanaryConfig
from enginewatch.config.collectors import NcclRasConfig, NvmlConfig, ProcessesConfig
from enginewatch.config.errors import ConfigError
from enginewatch.config.heartbeat import HeartbeatConfig
from enginewatch.config.logs import JournalConfig, KernelLogConfig, LogFilesConfig
from enginewatch.config.preflight import PreflightConfig
from enginewatch.config.probe import GeneralProbeConfig, ProbeConfig
from enginewatch.config.receivers import ReceiverConfig
from enginewatch.config.routing import InhibitRuleConfig, RouteConfig, check_routes
from enginewatch.config.scrape import ScrapeConfig, StaticConfig
from enginewatch.config.section import (
    ConfigPath,
    OwnLabels,
    PositiveDuration,
    Section,
    WebUrl,
    fault,
    host_and_port,
    matching,
    one_of,
    read_secret,
)
from enginewatch.config.timeintervals import TimeInterval
from enginewatch.model import Millis
from enginewatch.units import parse_address

SHIPPED: Final = "shipped"
"""The entry of `rule_files` that stands for the rules in the package."""

_DEFAULT_TIMEOUT: Final[Millis] = 4_000
_ALERTING: Final = "alerts go to receivers directly: use receivers and route"


class GlobalConfig(Section):
    scrape_interval: PositiveDuration = 5_000
    scrape_timeout: PositiveDuration | None = None
    """4 s, or the interval where that is shorter, if not given."""
    evaluation_interval: PositiveDuration = 5_000
    external_labels: OwnLabels = Field(default_factory=dict)

    elsewhere: ClassVar = {
        "body_size_limit": "limits are set in scrape_configs",
        "sample_limit": "limits are set in scrape_configs",
        "label_limit": "limits are set in scrape_configs",
        "scrape_protocols": "text and OpenMetrics are told apart by the answer",
        "query_log_file": "queries are not logged",
    }


class StorageConfig(Section):
    path: ConfigPath = Field(Path("enginewatch-data"), validate_default=True)
    """The folder of what must survive a restart: alert states and undelivered notifications."""

    elsewhere: ClassVar = {
        "tsdb": "samples are kept in memory, for as long as the rules look back",
        "exemplars": "exemplars are not kept",
    }


class WebConfig(Section):
    listen: Annotated[str, host_and_port("127.0.0.1:9469")] = "127.0.0.1:9469"
    external_url: WebUrl | None = None
    """How receivers' readers reach this daemon; used in links."""
    token: SecretStr | None = None
    token_file: ConfigPath | None = None
    token_env: str | None = None

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        one_of(self, "token", "token_file", "token_env")
        return self

    @property
    def address(self) -> tuple[str, int]:
        return parse_address(self.listen)

    def read_token(self) -> str | None:
        """The token that state-changing requests must carry, if any. Raises ConfigError."""
        return read_secret(self.token, self.token_file, self.token_env)


class Config(Section):
    """`enginewatch.yml`."""

    global_: GlobalConfig = Field(GlobalConfig(), alias="global")
    scrape_configs: tuple[ScrapeConfig, ...] = ()
    probe: GeneralProbeConfig = Field(default_factory=GeneralProbeConfig)
    logs: tuple[LogFilesConfig, ...] = ()
    journal: JournalConfig | None = None
    kernel: KernelLogConfig | None = None
    canary: tuple[CanaryConfig, ...] = ()
    """A mapping, or a list of them: one a baseline."""
    rule_files: tuple[str, ...] = (SHIPPED,)
    """Paths and globs; `shipped` stands for the rules that come with the program."""
    receivers: tuple[ReceiverConfig, ...] = ()
    route: RouteConfig | None = None
    """Every alert goes to every receiver, if not given."""
    inhibit_rules: tuple[InhibitRuleConfig | None, ...] = (None,)
    """None, which is written `shipped`, stands for those that come with the program."""
    time_intervals: tuple[TimeInterval, ...] = ()
    mute_time_intervals: tuple[TimeInterval, ...] = ()
    """Alertmanager's former name for `time_intervals`; both may be given."""
    heartbeat: HeartbeatConfig | None = None
    nvml: NvmlConfig = NvmlConfig()
    processes: ProcessesConfig = ProcessesConfig()
    nccl_ras: tuple[NcclRasConfig, ...] = (NcclRasConfig(),)
    """A mapping, or a list of them: one a job."""
    preflight: tuple[PreflightConfig, ...] = ()
    storage: StorageConfig = Field(default_factory=dict, validate_default=True)
    web: WebConfig = WebConfig()

    elsewhere: ClassVar = {
        "alerting": _ALERTING,
        "templates": "what receivers say is not templated; rules' annotations are",
        "remote_write": "samples are not sent on; let Prometheus scrape the engines too",
        "remote_read": "rules are evaluated over the targets' own samples",
        "scrape_config_files": "write all jobs into scrape_configs",
    }

    @field_validator("rule_files")
    @classmethod
    def _beside_this_file(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        base = Path((info.context or {}).get("base", Path()))
        return tuple(entry if entry == SHIPPED else str(base / entry) for entry in value)

    @field_validator("journal", "kernel", mode="before")
    @classmethod
    def _switched(cls, value: object) -> object:
        """`true` is all of it, and `false` nothing."""
        return {True: {}, False: None}[value] if isinstance(value, bool) else value

    @field_validator("canary", "nccl_ras", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value

    @field_validator("inhibit_rules", mode="before")
    @classmethod
    def _shipped_among_them(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        for index, entry in enumerate(value):
            if entry is None or (isinstance(entry, str) and entry != SHIPPED):
                raise fault("not an inhibition", f"a mapping, or {SHIPPED}", (index,))
        return [None if entry == SHIPPED else entry for entry in value]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        times = [each.name for each in self.time_intervals]
        _unique("time_intervals", "name", times)
        _unique("mute_time_intervals", "name", [e.name for e in self.mute_time_intervals], times)
        check_routes(self.route, {each.name for each in self.receivers}, self.all_time_intervals)
        _unique("scrape_configs", "job_name", [job.job_name for job in self.scrape_configs])
        _unique("nccl_ras", "address", [each.address for each in self.nccl_ras])
        _unique("receivers", "name", [receiver.name for receiver in self.receivers])
        jobs = {job.job_name for job in self.scrape_configs}
        for index, canary in enumerate(self.canary):
            for place, name in enumerate(canary.jobs):
                if name not in jobs:
                    raise fault(
                        f"no job is called {name!r}",
                        "a job_name of scrape_configs",
                        ("canary", index, "jobs", place),
                    )
        interval = self.global_.scrape_interval
        if (self.global_.scrape_timeout or 0) > interval:
            raise fault("longer than scrape_interval", at=("global", "scrape_timeout"))
        for index, job in enumerate(self.scrape_configs):
            if job.scrape_timeout is not None and job.scrape_timeout > self.interval(job):
                at = ("scrape_configs", index, "scrape_timeout")
                raise fault("longer than the scrape_interval of the job", at=at)
        return self

    @property
    def all_time_intervals(self) -> tuple[TimeInterval, ...]:
        return (*self.time_intervals, *self.mute_time_intervals)

    def interval(self, job: ScrapeConfig) -> Millis:
        return job.scrape_interval or self.global_.scrape_interval

    def timeout(self, job: ScrapeConfig) -> Millis:
        """The deadline of a whole scrape; never longer than the interval."""
        chosen = job.scrape_timeout or self.global_.scrape_timeout or _DEFAULT_TIMEOUT
        return min(chosen, self.interval(job))

    def probe_of(self, job: ScrapeConfig) -> ProbeConfig:
        """How the targets of a job are probed."""
        return (job.probe or ProbeConfig()).over(self.probe)

    @property
    def sole_deployment(self) -> str | None:
        """The deployment of all jobs, if it is one and the same."""
        found = {
            static.labels.get("deployment") or job.deployment or job.job_name
            for job in self.scrape_configs
            for static in job.static_configs or (StaticConfig(targets=()),)
        }
        return found.pop() if len(found) == 1 else None

    def rule_paths(self, shipped: Sequence[Path]) -> tuple[Path, ...]:
        """The rule files as they are now, each once. Raises ConfigError where there is none."""
        found: dict[Path, None] = {}
        for entry in self.rule_files:
            if entry == SHIPPED:
                found.update(dict.fromkeys(shipped))
                continue
            matches = matching(Path(entry))
            if not matches:
                raise ConfigError("rule_files: no such file", where=entry)
            found.update(dict.fromkeys(matches))
        return tuple(found)


def _unique(section: str, key: str, names: Sequence[str], taken: Sequence[str] = ()) -> None:
    for index, name in enumerate(names):
        if name in taken or name in names[:index]:
            raise fault(f"{name!r} is given twice", at=(section, index, key))
