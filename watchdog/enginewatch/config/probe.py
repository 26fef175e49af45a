"""The active probe: a request of one token, sent where nothing else proves that an engine lives."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import Field, JsonValue, model_validator

from enginewatch.config.section import PositiveDuration, Section, fault


class ProbeConfig(Section):
    """How a job's targets are probed. Credentials and TLS are those of the job."""

    enabled: bool | None = None
    """Not given: a target is probed if it lists its models as OpenAI's API does."""
    interval: PositiveDuration = 5_000
    """How long a target may go without a proof of progress, its own traffic's or a probe's."""
    timeout: PositiveDuration = 5_000
    """How long an answer may take. The engine is never told of it, and never asked to keep it."""
    prompt: str = Field(default="Hi", min_length=1)
    model: str | None = None
    """The first that the server lists, if not given."""
    chat: bool | None = None
    """Whether to send chats; if not given, completions where the server has them."""
    path: str | None = None
    """Of the request, where it is not the one of the runtime's API."""
    port: int | None = Field(default=None, gt=0, lt=65536)
    """Of the API, where it is not the one that metrics are served at."""
    body: dict[str, JsonValue] = Field(default_factory=dict)
    """Keys to add to the request, or to put in the place of its own."""

    elsewhere: ClassVar = {
        "deadline": "it is called timeout",
        "headers": "credentials are those of the job: authorization or basic_auth",
    }

    @model_validator(mode="after")
    def _path(self) -> Self:
        if self.path is not None and not self.path.startswith("/"):
            raise fault(f"{self.path!r} does not start with /", at=("path",))
        return self

    def over(self, general: ProbeConfig) -> ProbeConfig:
        """These settings, with those of `general` where nothing was given."""
        given: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        own = {name: getattr(general, name) for name in ProbeConfig.model_fields}
        return ProbeConfig.model_construct(**{**own, **given})


class GeneralProbeConfig(ProbeConfig):
    """The settings of all jobs that have none of their own."""

    concurrency: int = Field(default=32, gt=0)
    """Probes under way at a time, all targets together; those that hang do not count for long."""
