"""An engine directory is replaced by one that was built for something else, while the old engine
still serves from memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml

from enginechaos.actions import Action, Restore
from enginechaos.embedded import free_port
from enginechaos.errors import TargetError
from enginechaos.faults.base import Evidence, Fault
from enginechaos.processes import end
from enginechaos.sim import engine_dir
from enginechaos.target import Target

_REFUSED: Final = "IRuntime::deserializeCudaEngine"
_STARTS_WITHIN: Final = 15.0
"""Seconds for an engine that refuses its files: it takes two or three."""


@dataclass
class ReplacedEngine(Fault):
    """The plans of `folder` are exchanged for those of `build`: a rollout of the wrong artifact.

    The evidence is that the files are others, and that a second engine of the same `settings` (of
    sim.yml), on a port of its own, refuses to load them with TensorRT's words. Of simulated
    engines only: these plans have no weights.
    """

    folder: Path
    build: engine_dir.Build
    ranks: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    verify_within: ClassVar[float] = 2 * _STARTS_WITHIN
    _before: Mapping[str, bytes] = field(default_factory=dict, init=False)

    def blast_radius(self, target: Target) -> str:
        return f"{self.folder}: no request, but {target.deployment} could not be started again"

    def undo(self, target: Target) -> Sequence[Action]:
        if target.tier != "sim":
            raise TargetError(
                f"{target.name} is no simulation, and loads no simulated engine",
                hint="leave engine_mismatch out of may_induce",
            )
        self._before = _contents(self.folder)
        return [Restore.of(self.folder, target.backups)]

    def inject(self, target: Target) -> None:
        beside = self.folder.with_name(f"{self.folder.name}.new")
        try:
            engine_dir.write(beside, self.build, ranks=self.ranks)
            shutil.rmtree(self.folder)
            beside.replace(self.folder)
        except OSError as failure:
            raise TargetError(
                f"can't be replaced: {failure.strerror}", where=str(self.folder)
            ) from None

    def verify(self, target: Target) -> Evidence:
        if _contents(self.folder) == self._before:
            return Evidence(False, f"{self.folder.name} has the files that it had")
        said = self._second_start()
        if said is None:
            return Evidence(False, "a second engine was not refused them")
        found = next((line for line in said.splitlines() if _REFUSED in line), "")
        return Evidence(bool(found), found or f"a second engine ended: {said[-200:].strip()}")

    def _second_start(self) -> str | None:
        """What an engine that ended at its start has said; None for one that serves."""
        with tempfile.TemporaryDirectory(prefix="enginechaos-") as folder:
            config = Path(folder) / "sim.yml"
            own = {"port": free_port(), "tensor_parallel": self.ranks}
            given = {**self.settings, **own, "engine_dir": str(self.folder.absolute())}
            config.write_text(yaml.safe_dump(given), "utf-8")
            running = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "enginechaos.sim", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            try:
                said, _ = running.communicate(timeout=_STARTS_WITHIN)
            except subprocess.TimeoutExpired:
                return None
            finally:
                end(running)
        return said


def _contents(folder: Path) -> Mapping[str, bytes]:
    try:
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    except OSError as failure:
        raise TargetError(f"can't be read: {failure.strerror}", where=str(folder)) from None
