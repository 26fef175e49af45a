"""What is judged again and again while it serves, as `enginewatch preflight` judges it before."""

from __future__ import annotations

import socket
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from enginewatch.config.section import ConfigPath, PositiveDuration, Section, fault

_OWN: Final = frozenset({"deployment", "instance", "interval"})


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Paths = Annotated[tuple[ConfigPath, ...], BeforeValidator(_listed)]


class PreflightConfig(Section):
    """The files and flags of one deployment; the keys are the command's options. Each takes a
    value or a list of them."""

    deployment: str | None = None
    """The only deployment of scrape_configs if there is just one."""
    instance: str = Field(default_factory=socket.gethostname)
    interval: PositiveDuration = 300_000
    engine_dir: Paths = ()
    model_repository: Paths = ()
    model: Texts = ()
    """A folder by its absolute path, or a public name."""
    draft: Texts = ()
    library: Paths = ()
    command: Texts = ()
    script: Paths = ()
    manifest: Paths = ()
    gpus: Texts = ()
    """Those of this machine, as NVML tells, if not given."""
    freeze: Paths = ()
    runtime: Texts = ()
    workload: Texts = ()
    evals: Paths = ()
    baseline_evals: Paths = ()

    elsewhere: ClassVar = {
        "url": "endpoints are scraped and probed anyway: scrape_configs",
        "accept": "silence the alert: enginewatch silence add",
        "require": "what is unknown is a ticket",
    }

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.options():
            raise fault("names nothing to judge", "engine_dir, model, command, manifest, …")
        return self

    def options(self) -> dict[str, tuple[str, ...]]:
        """As the command line would have them: `--engine-dir` and its values."""
        return {
            f"--{name.replace('_', '-')}": tuple(map(str, values))
            for name in PreflightConfig.model_fields
            if name not in _OWN and (values := getattr(self, name))
        }
