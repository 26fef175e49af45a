"""What really runs behind `exec`, `env`, `mpirun`, `docker run` and their like."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from enginewatch.preflight.readers.shell import Command, ShellError, Word, read_script
from enginewatch.preflight.readers.workload import Workload
from enginewatch.units import parse_size

_DEEPEST: Final = 12

_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "exec": frozenset({"-a"}),
    "command": frozenset(),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "time": frozenset({"-o", "-f"}),
    "nice": frozenset({"-n"}),
    "ionice": frozenset({"-c", "-n"}),
    "stdbuf": frozenset({"-o", "-e", "-i"}),
    "sudo": frozenset({"-u", "-g", "-C"}),
    "tini": frozenset(),
    "dumb-init": frozenset(),
    "numactl": frozenset({"-N", "-m", "-C", "-i", "-l"}),
    "chrt": frozenset(),
    "catchsegv": frozenset(),
    "trtllm-llmapi-launch": frozenset(),
    "accelerate": frozenset(),
    "nsys": frozenset({"-o", "-t", "-c", "-w", "-f", "-s"}),
    "runuser": frozenset({"-u", "-g"}),
    "uv": frozenset({"--with", "--extra", "--group", "--python", "-p", "--project", "--env-file"}),
    "uvx": frozenset({"--from", "--with", "--python", "-p"}),
    **dict.fromkeys(
        ("conda", "mamba", "micromamba"), frozenset({"-n", "--name", "-p", "--prefix", "--cwd"})
    ),
}
"""Programs that run their arguments, and those of their options that take a value."""
_POSITIONALS: Final = {
    "timeout": 1, "taskset": 1, "chrt": 1, "flock": 1, "gosu": 1, "su-exec": 1
}  # fmt: skip
"""How many words stand between such a program and the command that it runs."""
_SUBCOMMANDS: Final[Mapping[str, frozenset[str]]] = {
    "nsys": frozenset({"profile", "launch"}),
    "accelerate": frozenset({"launch"}),
    **dict.fromkeys(
        ("uv", "conda", "mamba", "micromamba", "poetry", "pipenv", "pixi", "pdm", "hatch"),
        frozenset({"run"}),
    ),
}
"""Programs that run what stands behind one of these words."""
_MPI: Final = frozenset({"mpirun", "mpiexec", "srun", "orterun", "prun"})
_MPI_SWITCHES: Final = frozenset(
    {"--allow-run-as-root", "--oversubscribe", "--bind-to-core", "--tag-output", "-v", "-q", "-l",
     "--verbose", "--quiet", "--label", "--exclusive", "--unbuffered", "--overlap",
     "--report-bindings"}
)  # fmt: skip
_MPI_TWO: Final = frozenset({"--mca", "-mca", "--gmca"})
_MPI_RANKS: Final = re.compile(r"-n[p]?(\d+)")
"""Written together, as srun takes it."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash", "su"})
_DOCKER: Final = frozenset({"docker", "podman", "nerdctl"})
_DOCKER_SWITCHES: Final = frozenset(
    {"-d", "-i", "-t", "-it", "-ti", "-dit", "-itd", "-td", "-P", "-q", "--rm", "--detach",
     "--init", "--interactive", "--tty", "--privileged", "--read-only", "--no-healthcheck",
     "--quiet", "--oom-kill-disable", "--publish-all", "--sig-proxy",
     "--disable-content-trust", "--replace"}
)  # fmt: skip


class Run(NamedTuple):
    """The words of a program, its name first; `ranks` is what an MPI launcher was asked for."""

    words: tuple[Word, ...]
    env: Mapping[str, Word]
    container: Workload | None = None
    ranks: int | None = None


@dataclass(frozen=True, slots=True)
class _State:
    env: Mapping[str, Word]
    script: str
    has_entry: Callable[[str], bool]
    container: Workload | None = None
    ranks: int | None = None
    depth: int = 0


def runs(
    command: Command, script: str, has_entry: Callable[[str], bool] = lambda _: False
) -> Iterator[Run]:
    """What a command comes to; several where it is `sh -c` of several.

    `has_entry` tells the images whose arguments go to an entry point of their own; a run
    of one has an empty name. Raises ShellError where the text of `sh -c` is no shell text.
    """
    yield from _unwrap(list(command.words), _State(command.env, script, has_entry))


def _unwrap(words: list[Word], state: _State) -> Iterator[Run]:
    if not words or state.depth > _DEEPEST:
        return
    state = replace(state, depth=state.depth + 1)
    name = program(words[0])
    if name == "env":
        yield from _env(words[1:], state)
    elif name in _MPI:
        yield from _mpi(words[1:], state)
    elif name in _SHELLS:
        yield from _shell(words, state)
    elif name == "eval":
        yield from _text(" ".join(word.text for word in words[1:]), words[0].line, state)
    elif name in _DOCKER and _verb(words) is not None:
        yield from _docker(words, state)
    elif name in {"apptainer", "singularity"} and len(words) > 2:
        rest = _past_options(words[2:], frozenset({"-B", "--bind", "--env", "--pwd", "-H"}))
        yield from _unwrap(rest[1:], state)
    elif name in _SUBCOMMANDS and len(words) > 1 and words[1].text in _SUBCOMMANDS[name]:
        yield from _unwrap(_past_options(words[2:], _VALUES.get(name, frozenset())), state)
    elif name in _VALUES or name in _POSITIONALS:
        rest = _past_options(words[1:], _VALUES.get(name, frozenset()))
        yield from _unwrap(rest[_POSITIONALS.get(name, 0) :], state)
    else:
        yield Run(tuple(words), state.env, state.container, state.ranks)


def program(word: Word) -> str:
    """The base name of a program's path."""
    return PurePosixPath(word.text).name


def _past_options(words: list[Word], with_value: frozenset[str]) -> list[Word]:
    while words and words[0].text.startswith("-"):
        if words[0].text == "--":
            return words[1:]
        words = words[2:] if words[0].text in with_value else words[1:]
    return words


def _env(words: list[Word], state: _State) -> Iterator[Run]:
    env = dict(state.env)
    while words:
        text = words[0].text
        if text in {"-i", "-", "--ignore-environment"}:
            env = {}
        elif text in {"-u", "--unset"} and len(words) > 1:
            env.pop(words[1].text, None)
            words = words[1:]
        elif "=" in text and not text.startswith("-"):
            name, _, value = text.partition("=")
            env[name] = words[0]._replace(text=value)
        elif not text.startswith("-"):
            break
        words = words[1:]
    yield from _unwrap(words, replace(state, env=env))


def _mpi(words: list[Word], state: _State) -> Iterator[Run]:
    env = dict(state.env)
    ranks = state.ranks
    while words and words[0].text.startswith("-"):
        name, equals, value = words[0].text.partition("=")
        given = value if equals else (words[1].text if len(words) > 1 else "")
        together = _MPI_RANKS.fullmatch(name)
        if together is not None:
            ranks = int(together[1])
        elif name in {"-n", "-np", "--np", "--ntasks"}:
            ranks = int(given) if given.isdigit() else ranks
        if name == "-x" and "=" in given:
            variable, _, text = given.partition("=")
            env[variable] = words[0]._replace(text=text)
        if name in _MPI_SWITCHES or equals or name[2:].isdigit():
            words = words[1:]
        else:
            words = words[3:] if name in _MPI_TWO else words[2:]
    # `mpirun -n 1 a : -n 1 b` runs several programs: the first tells what they are.
    ends = next((at for at, word in enumerate(words) if word.text == ":"), len(words))
    words = words[:ends]
    yield from _unwrap(words, replace(state, env=env, ranks=ranks))


def _shell(words: list[Word], state: _State) -> Iterator[Run]:
    for index, word in enumerate(words[1:-1], 1):
        if word.text.startswith("-") and word.text.endswith("c") and not word.text.startswith("--"):
            yield from _text(words[index + 1].text, words[index + 1].line, state)
            return
    if len(words) > 1:
        yield Run(tuple(words), state.env, state.container, state.ranks)


def _text(text: str, line: int, state: _State) -> Iterator[Run]:
    """What shell text in a word comes to; what its environment has from outside stays unknown."""
    known = {name: value.text for name, value in state.env.items() if value.known}
    inner = read_script(text, state.script, known, first_line=line or 1)
    for command in inner.commands:
        env = {**state.env, **command.env}
        yield from _unwrap(list(command.words), replace(state, env=env))


def _verb(words: list[Word]) -> int | None:
    """Where `run` stands in `docker run`, `docker container run`, `podman exec`."""
    for index, word in enumerate(words[1:4], 1):
        if word.text in {"run", "create", "exec"}:
            return index
    return None


def _docker(words: list[Word], state: _State) -> Iterator[Run]:
    start = _verb(words) or 1
    rest = words[start + 1 :]
    env: dict[str, Word] = {}
    options: dict[str, str] = {}
    notes: list[str] = []
    while rest and rest[0].text.startswith("-"):
        name, equals, inline = rest[0].text.partition("=")
        switch = name in _DOCKER_SWITCHES
        value = inline if equals else "" if switch or len(rest) < 2 else rest[1].text
        if name in {"-e", "--env"} and "=" in value:
            variable, _, text = value.partition("=")
            env[variable] = rest[0]._replace(text=text)
        elif name.startswith("-e") and equals:
            env[name.removeprefix("-e")] = rest[0]._replace(text=inline)
        elif name == "--env-file":
            notes.append(f"the environment file {value}")
        elif name == "--gpus" and _gpus(value) is None:
            notes.append(f"the number of GPUs ({value})")
        options[name] = value
        rest = rest[1 if switch or equals else 2 :]
    if not rest:
        return
    entry = options.get("--entrypoint", "")
    tail = rest[1:]
    if entry:
        tail = [rest[0]._replace(text=entry, raw=entry), *tail]
    container = Workload(
        name=options.get("--name", ""),
        kind="docker run",
        image=rest[0].text,
        where=f"{state.script}:{words[0].line}" if words[0].line else state.script,
        words=tuple(tail),
        entrypoint=bool(entry),
        env=env,
        gpus=_gpus(options.get("--gpus")),
        shm_bytes=_size(options.get("--shm-size")),
        shares_ipc=options.get("--ipc") == "host",
        notes=tuple(notes),
    )
    inner = replace(state, env=env, container=container)
    if not tail or tail[0].text.startswith("-") or (state.has_entry(container.image) and not entry):
        yield Run((rest[0]._replace(text="", raw=""), *tail), env, container, state.ranks)
    else:
        yield from _unwrap(tail, inner)


def _gpus(text: str | None) -> int | None:
    """`all` is -1; `2`; `"device=0,1"` counts its devices."""
    if text is None:
        return None
    plain = text.strip("\"' ")
    if plain in {"all", "-1"}:
        return -1
    if plain.isdigit():
        return int(plain)
    for part in plain.split('"'):
        if part.startswith("device="):
            return len([each for each in part.removeprefix("device=").split(",") if each])
    if plain.startswith("count="):
        return -1 if plain == "count=all" else int(plain[6:]) if plain[6:].isdigit() else None
    return None


def _size(text: str | None) -> int | None:
    try:
        return parse_size(text) if text else None
    except ValueError:
        return None


__all__ = ["Run", "ShellError", "program", "runs"]
