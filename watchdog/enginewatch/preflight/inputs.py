"""From the options of a command to facts: files are opened here, and readers called.

`READERS` has a function for each option that names something to read. It gets one value
of the option and gives the facts in it. A path that isn't there is wrong use; what is
wrong inside a file is an `Unread`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Final

from enginewatch.canary.errors import CanaryError
from enginewatch.canary.evaluation import Evaluation
from enginewatch.canary.lmeval import read_evaluation
from enginewatch.preflight.artifacts import (
    engine_dir,
    folder,
    library,
    model_repository,
    place,
)
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.named_here import named_here
from enginewatch.preflight.readers.checkpoint import read_checkpoint
from enginewatch.preflight.readers.commands import (
    Started,
    files_beside,
    started_by_manifest,
    started_by_text,
)
from enginewatch.preflight.readers.demand import declared_demand
from enginewatch.preflight.readers.gpus import declared_gpus
from enginewatch.preflight.readers.named import Named
from enginewatch.preflight.readers.unread import Unread, not_read
from enginewatch.preflight.readers.versions import declared_version, read_freeze
from enginewatch.preflight.recorded import recorded_demand

MOST_TEXT: Final = 16 * 2**20
"""Bytes of a text file (a script, a manifest, a freeze) that are read; none is this long."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """`given` are the values of each option, in the order of the command line."""

    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def shown(self) -> tuple[str, ...]:
        """As they were given, for the report."""
        return tuple(f"{name} {value}" for name, values in self.given.items() for value in values)


def read_text(path: Path, option: str) -> str | Unread:
    """The text of a file that people write. Raises PreflightError where there is none."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_TEXT + 1)
    except OSError as failure:
        raise PreflightError(not_read(failure), where=f"{option} {path}") from None
    if len(raw) > MOST_TEXT:
        return Unread(str(path), f"longer than {MOST_TEXT >> 20} MiB, which no such file is")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        return Unread(str(path), f"not UTF-8 at byte {failure.start}")


def _gpus(value: str) -> Facts:
    return Facts(gpus=(declared_gpus(value),))


def _runtime(value: str) -> Facts:
    return Facts(versions=(declared_version(value),))


def _freeze(value: str) -> Facts:
    text = read_text(place(value, "--freeze"), "--freeze")
    if isinstance(text, Unread):
        return Facts(unread=(text._replace(check="versions"),))
    found = tuple(read_freeze(text, value))
    if not found:
        what = "no line says a distribution and its version, as pip freeze writes them"
        return Facts(unread=(Unread(value, what, "versions"),))
    return Facts(versions=found)


def _evaluation(value: str, option: str) -> Evaluation | Unread:
    path = place(value, option)
    if not path.exists():
        raise PreflightError(f"{path} does not exist", where=option)
    try:
        return read_evaluation(path)
    except CanaryError as failure:
        return Unread(failure.where or value, failure.what, "quality")


def _evals(value: str) -> Facts:
    found = _evaluation(value, "--evals")
    return Facts(unread=(found,)) if isinstance(found, Unread) else Facts(evaluations=(found,))


def _baseline_evals(value: str) -> Facts:
    found = _evaluation(value, "--baseline-evals")
    return Facts(unread=(found,)) if isinstance(found, Unread) else Facts(baselines=(found,))


def _command(value: str) -> Facts:
    return _started(started_by_text(value, "--command", files_beside(Path())))


def _script(value: str) -> Facts:
    text = read_text(place(value, "--script"), "--script")
    if isinstance(text, Unread):
        return Facts(unread=(text._replace(check="launch"),))
    return _started(started_by_text(text, value, files_beside(place(value, "--script").parent)))


def _manifest(value: str) -> Facts:
    text = read_text(place(value, "--manifest"), "--manifest")
    if isinstance(text, Unread):
        return Facts(unread=(text._replace(check="launch"),))
    return _started(
        started_by_manifest(text, value, files_beside(place(value, "--manifest").parent))
    )


def _started(started: Started) -> Facts:
    return Facts(
        launches=started.launches,
        workloads=started.workloads,
        fronts=started.fronts,
        unread=started.unread,
    )


def _workload(value: str) -> Facts:
    path = place(value, "--workload")
    if "=" in value and not path.is_file():
        return Facts(demands=(declared_demand(value),))
    if not path.is_file():
        raise PreflightError(
            f"{value!r} is no recording that is here",
            where="--workload",
            hint="a recording's file, or a text like prompt=3000,decode=300,itl=50ms",
        )
    found = recorded_demand(path)
    return Facts(unread=(found,)) if isinstance(found, Unread) else Facts(demands=(found,))


def _model(value: str) -> Facts:
    return _weights(value, "model")


def _draft(value: str) -> Facts:
    return _weights(value, "draft")


def _weights(value: str, role: str) -> Facts:
    """A directory of weights, or a public name."""
    option = f"--{role}"
    path = place(value, option)
    if path.is_dir():
        found = read_checkpoint(path, role)
        return Facts(checkpoints=(found,), unread=found.unread)
    # `org/name` is a path too; one that is there, or is written like one, is no name.
    if path.exists() or value.startswith((".", "/", "~")) or value.count("/") > 1:
        folder(value, option)
    return Facts(named=(Named(value, role, f"{option} {value}"),))


READERS: Final[Mapping[str, Callable[[str], Facts]]] = {
    "--engine-dir": engine_dir,
    "--model-repository": model_repository,
    "--library": library,
    "--gpus": _gpus,
    "--runtime": _runtime,
    "--freeze": _freeze,
    "--model": _model,
    "--draft": _draft,
    "--command": _command,
    "--script": _script,
    "--manifest": _manifest,
    "--workload": _workload,
    "--evals": _evals,
    "--baseline-evals": _baseline_evals,
}


ELSEWHERE: Final = frozenset({"--url"})
"""Options whose facts come in by `more`: what takes a network is no reading of files."""


def gather(inputs: Inputs, more: Iterable[Facts] = ()) -> Facts:
    """Everything that the inputs say, with what lies where their commands point, and `more`.

    Raises PreflightError for wrong use.
    """
    given = [(name, value) for name, values in inputs.given.items() for value in values]
    for name, value in given:
        # The empty path is the folder one stands in, which nobody means.
        if not value.strip():
            raise PreflightError("is empty", where=name, hint="is the variable set that gives it?")
    found = (READERS[name](value) for name, value in given if name not in ELSEWHERE)
    facts = reduce(add, (*found, *more), Facts())
    return facts + named_here(facts)
