"""What a command starts: which engine, with which settings, each with the place that gives it.

Settings have one name whatever the launcher calls them (`rules/compat/flags`, column `sets`):

```
model, draft_model, speculative_method, speculative_tokens, draft_tensor_parallel
tensor_parallel, pipeline_parallel, data_parallel, expert_parallel, context_parallel
max_num_seqs, max_num_batched_tokens, max_model_len, max_input_len, chunked_prefill
dtype, quantization, kv_cache_dtype, kv_cache_bytes, gpu_memory_utilization,
free_gpu_memory_fraction, mem_fraction_static, enforce_eager, …
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from enginewatch.evidence.redact import redact
from enginewatch.evidence.tables import load_table
from enginewatch.model import compile_re2
from enginewatch.preflight.readers import launchers
from enginewatch.preflight.readers.flags import Given, Json, Problem, flag_table
from enginewatch.preflight.readers.launchers.base import Files, Read, Words
from enginewatch.preflight.readers.shell import Command, Script, Word
from enginewatch.preflight.readers.workload import Workload
from enginewatch.preflight.readers.wrappers import Run, program, runs
from enginewatch.rulepack import rules_path

_PYTHON: Final = compile_re2(r"^(python|python3)(\.\d+)?$|^torchrun$|^uv$")
_INTERPRETER_VALUES: Final = frozenset({"-W", "-X"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start of an engine. `env` is what the command gets from script or manifest.

    `flags` are all that were given, by the launcher's names; `settings` those with a
    meaning, by ours. `command` has its secrets struck out.
    """

    launcher: str
    runtime: str
    where: str
    command: str
    settings: Mapping[str, Given] = field(default_factory=dict)
    flags: Mapping[str, Given] = field(default_factory=dict)
    env: Mapping[str, Given] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    container: Workload | None = None
    ranks: int | None = None

    @property
    def builds(self) -> bool:
        """Whether it builds an engine and serves none."""
        return self.launcher == "trtllm-build"

    @property
    def serves_engine(self) -> bool:
        """Whether it serves an engine that was built before."""
        return self.runtime in {"trtllm", "triton"} and not self.builds

    def value(self, name: str) -> Json:
        """A setting's value; None where it is not given, or comes from outside."""
        given = self.settings.get(name)
        return given.value if given else None

    def is_told(self, name: str) -> bool:
        """False for a setting whose value comes from outside; True for one that is not set."""
        return name not in self.settings or self.value(name) is not None

    def number(self, name: str) -> float | None:
        """A setting's number, None where it is not given or is none."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value)

    def count(self, name: str, default: int = 1) -> int:
        """A setting's number of GPUs or nodes; the default where it is not given or under 1."""
        value = self.number(name)
        return int(value) if value is not None and value >= 1 else default

    def text(self, name: str) -> str:
        """A setting's word; empty where it is not given or is none."""
        value = self.value(name)
        return value if isinstance(value, str) else ""

    def where_of(self, name: str) -> str:
        """The place that gives a setting; the command's where nothing does."""
        given = self.settings.get(name)
        return given.where if given else self.where


@dataclass(frozen=True, slots=True)
class Launcher:
    """A row of `rules/compat/launchers.yml`."""

    name: str
    runtime: str
    reader: str
    flags: str
    program: Any
    command: str
    module: Any
    image: Any


@cache
def known_launchers() -> tuple[Launcher, ...]:
    """Raises SignatureError where the table can't be read."""
    rows = load_table(rules_path() / "compat" / "launchers.yml").rows.values()

    def pattern(row: Mapping[str, Any], key: str) -> Any:
        return compile_re2(str(row[key])) if row.get(key) else None

    return tuple(
        Launcher(
            name=str(row["name"]),
            runtime=str(row["runtime"]),
            reader=str(row["reader"]),
            flags=str(row["flags"]),
            program=pattern(row, "program"),
            command=str(row.get("command") or ""),
            module=pattern(row, "module"),
            image=pattern(row, "image"),
        )
        for row in rows
    )


def entry_point(image: str) -> Launcher | None:
    """The launcher that is an image's entry point, if it is known to have one."""
    return next((one for one in known_launchers() if one.image and one.image.search(image)), None)


def read_launches(script: Script, files: Files | None = None) -> tuple[Launch, ...]:
    """Every start of an engine in a script, in its order.

    `files` gives the text of a configuration file that a command names, None where there
    is none; here-documents of the script come first. Raises ShellError for `sh -c` text that
    no shell would run.
    """

    def read(path: str) -> str | None:
        here = script.files.get(path) or script.files.get(path.removeprefix("./"))
        return here.text if here else files(path) if files else None

    found: list[Launch] = []
    for command in script.commands:
        for run in runs(command, script.name, lambda image: entry_point(image) is not None):
            launch = launch_of(run, script.name, read)
            if launch is not None:
                found.append(launch)
    return _with_traps(found, script)


def _with_traps(found: list[Launch], script: Script) -> tuple[Launch, ...]:
    """A broken continuation belongs to the command before it: it loses what follows."""
    if not found or not script.traps:
        return tuple(found)
    traps = [
        Problem(
            trap.kind.replace(" ", "_"), trap.text.strip() or "\\ ", f"{script.name}:{trap.line}"
        )
        for trap in script.traps
    ]
    first = found[0]
    found[0] = replace(first, problems=(*first.problems, *traps))
    return tuple(found)


def launch_of(run: Run, script: str, files: Files) -> Launch | None:
    """What a run starts, None for anything but an engine."""
    found = _identify(run)
    if found is None:
        return None
    launcher, words = found
    read = launchers.READERS[launcher.reader](
        Words(tuple(words), flag_table(launcher.flags), script, run.env, files)
    )
    line = run.words[0].line or (words[0].line if words else 0)
    return _launch(launcher, read, run, f"{script}:{line}" if line else script)


def _launch(launcher: Launcher, read: Read, run: Run, where: str) -> Launch:
    raw = " ".join(word.raw for word in run.words if word.raw)
    return Launch(
        launcher=launcher.name,
        runtime=launcher.runtime,
        where=where,
        command=redact(raw),
        settings=read.settings,
        flags=read.flags,
        env={name: _variable(name, word, where) for name, word in run.env.items()},
        problems=tuple(read.problems),
        container=run.container,
        ranks=run.ranks,
    )


def _variable(name: str, word: Word, where: str) -> Given:
    place = f"{where.rpartition(':')[0] or where}:{word.line}" if word.line else where
    return Given(word.text if word.known else None, place, name)


def _identify(run: Run) -> tuple[Launcher, list[Word]] | None:
    """The launcher and its arguments."""
    words = list(run.words)
    if not words[0].text and run.container is not None:
        launcher = entry_point(run.container.image)
        return (launcher, _without_program(words[1:], launcher)) if launcher else None
    name = program(words[0])
    if _PYTHON.search(name):
        return _of_python(words[1:])
    return _of_program(name, words[1:])


def _without_program(words: list[Word], launcher: Launcher) -> list[Word]:
    """Arguments of an image's entry point, where people repeat the program it starts."""
    named = _of_program(program(words[0]), words[1:]) if words else None
    return named[1] if named and named[0].runtime == launcher.runtime else words


def _of_program(name: str, rest: list[Word]) -> tuple[Launcher, list[Word]] | None:
    for each in known_launchers():
        if each.program and each.program.search(name):
            if not each.command:
                return each, rest
            if rest and rest[0].text == each.command:
                return each, rest[1:]
    return None


def _of_python(words: list[Word]) -> tuple[Launcher, list[Word]] | None:
    """`python -u -m MODULE …`, `python3 path/to/launch_triton_server.py …`, `torchrun … -m …`."""
    index = 0
    while index < len(words):
        text = words[index].text
        if text in {"-m", "--module"} and index + 1 < len(words):
            return _of_module(words[index + 1].text, words[index + 2 :])
        if not text.startswith("-") and text != "run":
            return _of_program(program(words[index]), words[index + 1 :])
        index += 2 if text in _INTERPRETER_VALUES else 1
    return None


def _of_module(module: str, rest: list[Word]) -> tuple[Launcher, list[Word]] | None:
    for each in known_launchers():
        if each.module and each.module.search(module):
            skips = each.command and rest and rest[0].text == each.command
            return each, rest[1:] if skips else rest
    return None


def workload_launches(
    workload: Workload, script: str, files: Files | None = None
) -> tuple[Launch, ...]:
    """What a container starts. Raises ShellError as `read_launches`."""
    words = workload.words
    direct = entry_point(workload.image) is not None and not workload.entrypoint
    if direct:
        words = (Word("", "", words[0].line if words else 0), *words)
    elif not words:
        return ()
    command = Command(words, workload.env, words[0].line)
    found: list[Launch] = []
    direct_runs = [Run(words, workload.env, workload)] if direct else runs(command, script)
    for run in direct_runs:
        launch = launch_of(run._replace(container=workload), script, files or (lambda _: None))
        if launch is not None:
            found.append(launch)
    return tuple(found)
