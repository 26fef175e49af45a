"""A Triton model repository: each model's `config.pbtxt`, its versions, and the plans in them.

Of models of the TensorRT-LLM backend the parameters are kept, and the engine directory
that they name; `${name}`, which the template's fill script replaces, is told as unset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from enginewatch.preflight.readers.pbtxt import (
    Message,
    PbtxtError,
    Value,
    first,
    messages,
    parse,
    text_of,
)
from enginewatch.preflight.readers.plan import SUFFIXES, Plan, read_plan
from enginewatch.preflight.readers.unread import Unread, not_read

TRTLLM: Final = ("tensorrtllm", "trtllm")
ENGINE_KEYS: Final = ("gpt_model_path", "engine_dir", "encoder_model_path")
"""Parameters of the TensorRT-LLM backend that name an engine directory."""

_CONFIG: Final = "config.pbtxt"
_LARGEST: Final = 1 << 20
_MOST_MODELS: Final = 2_000
_UNSET: Final = re.compile(r"\$\{[^}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonModel:
    """`parameters` are the strings of `parameters {}` by key; `unset` those still `${…}`.

    `instances` counts processes or threads that hold the model at once, on all GPUs:
    None where no group is on GPUs. `versions` are numbers of folders; `plans` those of the
    versions that are served.
    """

    where: str
    name: str
    backend: str = ""
    max_batch_size: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    instances: int | None = None
    versions: tuple[int, ...] = ()
    plans: tuple[Plan, ...] = ()
    has_config: bool = True

    @property
    def is_trtllm(self) -> bool:
        """Whether the TensorRT-LLM backend serves it."""
        return self.backend in TRTLLM

    @property
    def engine_dirs(self) -> tuple[str, ...]:
        """As they are written; relative paths count from where the server was started."""
        found = (self.parameters.get(key, "") for key in ENGINE_KEYS)
        return tuple(dict.fromkeys(path for path in found if path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The models of a Triton model repository."""

    where: str
    models: tuple[TritonModel, ...] = ()
    unread: tuple[Unread, ...] = ()


def read_repository(folder: Path) -> Repository:
    """Never raises for what stands in the folder."""
    unread: list[Unread] = []
    models: list[TritonModel] = []
    try:
        folders = sorted(path for path in folder.iterdir() if path.is_dir())
        if (folder / _CONFIG).is_file():
            # The folder of one model was given, instead of the one above it.
            folders = [folder]
    except OSError as failure:
        what = not_read(failure)
        return Repository(where=str(folder), unread=(Unread(str(folder), what),))
    if len(folders) > _MOST_MODELS:
        unread.append(Unread(str(folder), f"has {len(folders)} folders: no repository does"))
        folders = []
    for each in folders:
        if each.name.startswith("."):
            continue
        try:
            models.append(read_model(each))
        except PbtxtError as failure:
            unread.append(Unread(failure.where, failure.what, "launch"))
        except OSError as failure:
            what = not_read(failure)
            unread.append(Unread(str(each), what, "architecture"))
    found = [each for each in models if each.has_config or each.plans]
    if not found and not unread:
        unread.append(Unread(str(folder), "holds no model with a config.pbtxt or a plan"))
    return Repository(where=str(folder), models=tuple(found), unread=tuple(unread))


def read_model(folder: Path) -> TritonModel:
    """Raises PbtxtError, OSError."""
    config: Message = {}
    path = folder / _CONFIG
    there = path.is_file()
    if there:
        with path.open("rb") as stream:
            raw = stream.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise PbtxtError("longer than 1 MiB, which no config.pbtxt is", where=str(path))
        try:
            config = parse(raw.decode("utf-8-sig"), str(path))
        except UnicodeDecodeError as failure:
            raise PbtxtError(f"not UTF-8 at byte {failure.start}", where=str(path)) from None
    versions = tuple(sorted(int(each.name) for each in _version_folders(folder)))
    served = _served(config, versions)
    named = text_of(config, "default_model_filename")
    plans = tuple(
        read_plan(file)
        for each in _version_folders(folder)
        if int(each.name) in served
        for file in sorted(each.iterdir())
        if (file.name.endswith(SUFFIXES) or file.name == named) and file.is_file()
    )
    parameters = dict(_parameters(config))
    size = first(config, "max_batch_size")
    return TritonModel(
        where=str(path if there else folder),
        name=text_of(config, "name") or folder.name,
        backend=text_of(config, "backend") or _of_platform(text_of(config, "platform")),
        max_batch_size=size if type(size) is int else None,
        parameters={key: text for key, text in parameters.items() if not _UNSET.search(text)},
        unset=tuple(sorted(key for key, text in parameters.items() if _UNSET.search(text))),
        instances=_instances(config),
        versions=versions,
        plans=plans,
        has_config=there,
    )


def _served(config: Message, versions: tuple[int, ...]) -> frozenset[int]:
    """The versions that Triton loads: the latest alone, unless a version_policy says otherwise."""
    policy = next(messages(config, "version_policy"), {})
    if "all" in policy:
        return frozenset(versions)
    if "specific" in policy:
        named = next(messages(policy, "specific"), {}).get("versions", ())
        return frozenset(version for version in named if type(version) is int)
    count = first(next(messages(policy, "latest"), {}), "num_versions")
    return frozenset(versions[-(count if type(count) is int and count > 0 else 1) :])


def _version_folders(folder: Path) -> list[Path]:
    found = (path for path in folder.iterdir() if path.name.isdecimal() and path.name.isascii())
    return sorted(path for path in found if len(path.name) < 19 and path.is_dir())


def _of_platform(platform: str) -> str:
    """The backend of an older `platform`, such as `tensorrt_plan`."""
    return platform.removesuffix("_plan").partition("_")[0] if platform else ""


def _parameters(config: Message) -> list[tuple[str, str]]:
    return [
        (key, _written(first(value, "string_value")))
        for entry in messages(config, "parameters")
        if (key := text_of(entry, "key"))
        for value in messages(entry, "value")
    ]


def _written(value: Value | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def _instances(config: Message) -> int | None:
    """How many instances there are on GPUs; a group without a list counts once."""
    total = 0
    seen = False
    for group in messages(config, "instance_group"):
        if text_of(group, "kind") == "KIND_CPU":
            continue
        seen = True
        count = first(group, "count")
        gpus = [gpu for gpu in group.get("gpus", ()) if type(gpu) is int]
        total += (count if type(count) is int and count > 0 else 1) * max(1, len(gpus))
    return total if seen else None
