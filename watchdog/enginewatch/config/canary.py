"""The quality canary: golden tasks, asked again and again while an engine serves."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from enginewatch.config.section import ConfigPath, PositiveDuration, Section, fault


class CanaryConfig(Section):
    """Tasks of one baseline, for the engines that should answer like it. Credentials and TLS are
    those of each engine's job."""

    enabled: bool = True
    baseline: ConfigPath
    """Made by `enginewatch canary baseline`, of the unquantized model or of the accepted one."""
    jobs: tuple[str, ...] = ()
    """Of scrape_configs; all of them if not given."""
    interval: PositiveDuration = 60_000
    """Between two batches to an engine."""
    batch: int = Field(default=16, gt=0, le=1024)
    """Tasks asked together: some faults show only beside other requests."""
    tokens_per_hour: int = Field(default=200_000, gt=0)
    """Read and written by one engine for the canary; a batch that would be more waits."""
    timeout: PositiveDuration = 120_000
    """How long one answer may take."""
    accept_drop: float = Field(default=0.0, ge=0.0, lt=1.0)
    """A drop of the pass rate that was accepted: 0.02 are two points."""
    model: str | None = None
    """The first that the engine lists, if not given."""
    logprobs: Literal["auto", "forced", "said", "off"] = "auto"
    """Where the right answer's log-probability comes from; `auto` finds out."""
    port: int | None = Field(default=None, gt=0, lt=65536)
    """Of the API, where it is not the one that metrics are served at."""
    body: dict[str, JsonValue] = Field(default_factory=dict)
    """Keys to add to each request, or to put in the place of its own."""

    elsewhere: ClassVar = {
        "url": "engines are those of scrape_configs; name some of them with jobs",
        "concurrency": "it is called batch",
        "chat": "the baseline says how it was asked",
        "alpha": "the numbers of the decision are in rules/canary/decision.yml",
    }

    @model_validator(mode="after")
    def _once(self) -> Self:
        for index, job in enumerate(self.jobs):
            if job in self.jobs[:index]:
                raise fault(f"{job!r} is given twice", at=("jobs", index))
        return self
