"""Which model a launch serves: by its files where they were given, else by its public name.

`--model` and `--draft` complete what commands leave open, and stand for a launch where no
command is given at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from enginewatch.preflight.facts import Facts
from enginewatch.preflight.memory import Model, weight_format
from enginewatch.preflight.readers.checkpoint import Checkpoint
from enginewatch.preflight.readers.flags import Given
from enginewatch.preflight.readers.launch import Launch
from enginewatch.preflight.shapes import shape_of_config
from enginewatch.preflight.targets import runtimes

_SETTINGS: Final = {"model": "model", "draft": "draft_model"}
"""The setting of a launch by the role of a model."""


def launches_of(facts: Facts) -> Iterator[Launch]:
    """Every launch, with the models that options name where it names none; one that has only
    these where there is no launch."""
    given = {
        _SETTINGS[each.role]: Given(each.name, each.where, each.where.partition(" ")[0])
        for each in reversed(facts.named)
    }
    for each in reversed(facts.checkpoints):
        option = f"--{each.role}"
        given[_SETTINGS[each.role]] = Given(each.where, f"{option} {each.where}", option)
    for launch in facts.launches:
        yield replace(launch, settings={**given, **launch.settings})
    model = given.get("model")
    if not facts.launches and model is not None:
        yield _plain_launch(model, given, facts)


def _plain_launch(model: Given, given: Mapping[str, Given], facts: Facts) -> Launch:
    """The model alone, over all GPUs of the first kind, by the runtime that is declared."""
    gpus = next(iter(facts.gpus), None)
    spread = {"tensor_parallel": Given(gpus.count, gpus.where, "--gpus")} if gpus else {}
    return Launch(
        launcher=model.by,
        runtime=next(iter(runtimes(facts)), ""),
        where=model.where,
        command=f"{model.where} {gpus.where}" if gpus else model.where,
        settings={**given, **spread},
    )


def checkpoint_of(name: str, role: str, facts: Facts) -> Checkpoint | None:
    """The files of a launch's model. A directory goes by another name where it will be served, so
    where all launches serve one model the only checkpoint is taken for it."""
    found = [each for each in facts.checkpoints if each.role == role]
    for each in found:
        if name == each.where or _last(name) == _last(each.where):
            return each
    names = {launch.text(_SETTINGS[role]) for launch in facts.launches} - {""}
    return found[0] if len(found) == 1 and len(names) <= 1 else None


def model_of(checkpoint: Checkpoint) -> Model | None:
    """Shape, format and bytes of a checkpoint; None where its configuration does not tell a shape
    that is known."""
    shape = shape_of_config(checkpoint.config, _last(checkpoint.where))
    if shape is None:
        return None
    quantization = checkpoint.quantization
    told = quantization.written if quantization else checkpoint.dtype
    size = checkpoint.weights.size if checkpoint.weights else None
    return Model(shape=shape, format=weight_format(told), weight_bytes=size or None)


def _last(name: str) -> str:
    return PurePosixPath(name.rstrip("/")).name.lower()
