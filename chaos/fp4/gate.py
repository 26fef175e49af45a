"""The canary's commands against a served model, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.fp4.ladder import TRUSTED, Rung

TASKS = "tasks.jsonl"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of the release gate: its exit code (0 passed, 1 worse, 3 not told). Of answers one by one:
    how many were judged, and the first alarm, if there was one."""

    code: int
    answers: int
    alarm: str | None

    @property
    def shown(self) -> str:
        """For a table."""
        gate = {0: "passed", 1: "refused"}.get(self.code, f"exit {self.code}")
        if self.alarm is None:
            return f"{gate}; silent for {self.answers} answers"
        return f"{gate}; {self.alarm} after {self.answers} answers"


class GateError(Exception):
    """The command failed instead of judging."""


def _enginewatch(*arguments: str, accepted: tuple[int, ...]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enginewatch", "canary", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode not in accepted:
        raise GateError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done


def _reach(url: str) -> tuple[str, ...]:
    return ("--url", url, "--runtime", "vllm", "--concurrency", "16")


def _baseline(out: Path, rung: Rung) -> str:
    """What a rung is compared with: itself, or the trusted one."""
    return str(out / f"{rung.name if rung.healthy else TRUSTED}.baseline.jsonl")


def trust(out: Path, url: str, rung: Rung) -> None:
    """Make the baseline of a healthy model. Raises GateError."""
    about = ("--about", f"format={rung.variant.name}", "--about", f"weights={rung.model}")
    files = ("--tasks", str(out / TASKS), "--output", _baseline(out, rung))
    made = _enginewatch("baseline", *_reach(url), *files, "--repeat", "3", *about, accepted=(0,))
    print(made.stdout, flush=True)


def judge(out: Path, url: str, rung: Rung, answers: int) -> Verdict:
    """Compare a served model with the baseline: all tasks once, then at most so many drawn ones.

    The reports are kept beside the baseline. Raises GateError.
    """
    trusted = ("--baseline", _baseline(out, rung))
    common = ("compare", *trusted, *_reach(url), "--format", "json")
    gate = _enginewatch(*common, accepted=(0, 1, 3))
    (out / f"{rung.name}.gate.json").write_text(gate.stdout, encoding="utf-8")
    one_by_one = _enginewatch(*common, "--answers", str(answers), "--seed", "1", accepted=(0, 1, 3))
    (out / f"{rung.name}.watch.json").write_text(one_by_one.stdout, encoding="utf-8")
    told: dict[str, Any] = json.loads(one_by_one.stdout)
    first = told["alarms"][0] if told["alarms"] else None
    alarm = f"{first['test']} of {first['family']}" if first else None
    return Verdict(gate.returncode, int(told["answers"]), alarm)
