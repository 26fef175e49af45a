"""Logs that are followed: files, the journal, the kernel's messages."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from enginewatch.config.section import ConfigPath, OwnLabels, Section, fault


class LogFilesConfig(Section):
    """Files of one deployment. Names may be globs; containers' JSON lines are understood."""

    files: tuple[ConfigPath, ...] = Field(min_length=1)
    labels: OwnLabels = Field(default_factory=dict)
    """Of all that is found: `deployment`, and `instance` where one engine alone writes them."""
    past: bool = False
    """Read at the start what is there already, rotated and gzipped files too."""


class JournalConfig(Section):
    """Messages of systemd's journal, from now on; of all units where none is given."""

    units: tuple[str, ...] = ()
    labels: OwnLabels = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names(self) -> Self:
        for index, unit in enumerate(self.units):
            if not unit or unit.startswith("-") or not unit.isprintable():
                raise fault(f"{unit!r} is not a unit", "like vllm.service", ("units", index))
        return self


class KernelLogConfig(Section):
    """The kernel's own messages: Xids, and what the out-of-memory killer did."""

    labels: OwnLabels = Field(default_factory=dict)
