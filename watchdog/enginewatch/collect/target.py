"""What is scraped, from a job and an address: labels and URL as Prometheus makes them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from enginewatch.config import Config, ConfigError, ScrapeConfig
from enginewatch.exposition import Limits
from enginewatch.model import Labels, Millis, Target
from enginewatch.units import parse_duration

_RESERVED = "__"
_PARAM = "__param_"


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """One endpoint, and everything that decides how it is scraped.

    Two that are equal need no change of schedule, connection or cache.
    `discovered` are the labels before those that start with `__` were used up.
    """

    target: Target
    discovered: Labels
    job: ScrapeConfig
    interval: Millis
    timeout: Millis

    @property
    def offset(self) -> Millis:
        """When in each interval it is scraped: by a hash, so that targets spread and stay put."""
        identity = repr((self.target.labels, self.target.url)).encode()
        return zlib.crc32(identity) % self.interval

    @property
    def limits(self) -> Limits:
        default = Limits()
        job = self.job

        def given(value: int | None, otherwise: int) -> int:
            return otherwise if value is None else value

        return Limits(
            body_size=given(job.body_size_limit, default.body_size),
            line_length=given(job.line_length_limit, default.line_length),
            lines=given(job.line_limit, default.lines),
            samples=given(job.sample_limit, default.samples),
            labels=given(job.label_limit, default.labels),
            label_name_length=given(job.label_name_length_limit, default.label_name_length),
            label_value_length=given(job.label_value_length_limit, default.label_value_length),
        )


def make_target(
    config: Config, job: ScrapeConfig, address: str, labels: Mapping[str, str]
) -> ScrapeTarget:
    """The target at `address`, with the labels of its group.

    As in Prometheus, `__scheme__`, `__metrics_path__`, `__param_<name>`,
    `__scrape_interval__` and `__scrape_timeout__` override the job for one target.
    Raises ConfigError for an override that can't be.
    """
    parameters = {name: list(values) for name, values in job.params.items()}
    discovered = {
        "job": job.job_name,
        "__scheme__": job.scheme,
        "__metrics_path__": job.path,
        **{f"{_PARAM}{name}": values[0] for name, values in parameters.items() if values},
        **labels,
        "__address__": address,
    }
    for name, value in discovered.items():
        if name.startswith(_PARAM):
            parameters[name.removeprefix(_PARAM)] = [value, *parameters.get(name[8:], [])[1:]]
    interval = _override(discovered, "__scrape_interval__", config.interval(job))
    timeout = _override(discovered, "__scrape_timeout__", min(config.timeout(job), interval))
    if timeout > interval:
        raise ConfigError("__scrape_timeout__ is longer than the scrape interval", where=address)
    return ScrapeTarget(
        Target(_url(discovered, parameters), _final(discovered, job)),
        Labels(discovered),
        _settings(job),
        interval,
        timeout,
    )


def _override(discovered: Mapping[str, str], label: str, otherwise: Millis) -> Millis:
    text = discovered.get(label)
    if not text:
        return otherwise
    try:
        span = parse_duration(text)
    except ValueError as failure:
        raise ConfigError(f"{label}: {failure}", where=discovered["__address__"]) from None
    if span <= 0:
        raise ConfigError(f"{label} is not positive", where=discovered["__address__"])
    return span


def _url(discovered: Mapping[str, str], parameters: Mapping[str, list[str]]) -> str:
    scheme, address = discovered["__scheme__"], discovered["__address__"]
    if scheme not in {"http", "https"}:
        raise ConfigError(f"__scheme__ is {scheme!r}", where=address, hint="http or https")
    path = quote(discovered["__metrics_path__"], safe="/%:@!$&'()*+,;=~")
    query = urlencode(parameters, doseq=True)
    return f"{scheme}://{address}{path}{'?' if query else ''}{query}"


def _final(discovered: Mapping[str, str], job: ScrapeConfig) -> Labels:
    kept = {k: v for k, v in discovered.items() if v and not k.startswith(_RESERVED)}
    kept.setdefault("instance", discovered["__address__"])
    kept.setdefault("job", job.job_name)
    kept.setdefault("deployment", job.deployment or kept["job"])
    if job.runtime:
        kept.setdefault("runtime", job.runtime)
    return Labels(kept)


def _settings(job: ScrapeConfig) -> ScrapeConfig:
    """The job without its lists of targets, so that a new neighbour changes nothing."""
    return job.model_copy(update={"static_configs": (), "file_sd_configs": ()})
