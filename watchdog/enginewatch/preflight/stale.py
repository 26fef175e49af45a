"""Is the engine still what the deployment means: its stamp beside model, GPU, versions and limits
of now.

```
enginewatch_preflight_stamp_found {engine}                              1, or 0
enginewatch_preflight_stamp_change {engine, aspect, was, now, effect}   1 changed, 0 the same
enginewatch_preflight_engine_limit {engine, limit, built, asked, launch}  what is asked beyond it
```

`effect` is what `rules/compat/rebuild.yml` says of a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from enginewatch.evidence.tables import load_table
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.architecture import Built, on_targets
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.pins import same
from enginewatch.preflight.readers.checkpoint import CONFIG, INDEX, QUANTIZED, Checkpoint
from enginewatch.preflight.readers.engine_dir import EngineDir
from enginewatch.preflight.readers.launch import Launch
from enginewatch.preflight.readers.stampfile import STAMP, Stamp
from enginewatch.preflight.stamp import (
    VERSIONS,
    altered,
    precision_of,
    revision_of,
    shapes_of,
)
from enginewatch.preflight.targets import targets
from enginewatch.preflight.versions import known_versions
from enginewatch.rulepack import rules_path

_PREFIX: Final = "enginewatch_preflight_"
_ASKED: Final[Mapping[str, str]] = {
    "max_num_seqs": "max_batch_size",
    "max_num_batched_tokens": "max_num_tokens",
    "max_model_len": "max_seq_len",
}
"""Settings of a launch, and the limit of the build that bounds each."""


class Change(NamedTuple):
    """An aspect of `rebuild.yml` at build time and now."""

    aspect: str
    was: str
    now: str
    same: bool


def samples(facts: Facts) -> Iterator[Observed]:
    """The series above, for every engine."""
    stamps = {stamp.where: stamp for stamp in facts.stamps}
    for engine in facts.engines:
        stamp = stamps.get(engine.where)
        evidence = Evidence(engine.where, 0, "has a stamp" if stamp else f"has no {STAMP}")
        yield observed(f"{_PREFIX}stamp_found", stamp is not None, evidence, engine=engine.where)
        yield from _limits(engine, facts.launches)
        yield from _batches(engine, facts)
        if stamp is not None:
            yield from _stamped(stamp, engine, facts)


def _stamped(stamp: Stamp, engine: EngineDir, facts: Facts) -> Iterator[Observed]:
    place = f"{stamp.where}/{STAMP}"
    for change in changes(stamp, engine, facts):
        effect = effects().get(change.aspect)
        if effect is None:
            continue
        evidence = Evidence(place, 0, f"made {stamp.made}: {change.aspect} {change.was}")
        yield observed(
            f"{_PREFIX}stamp_change",
            not change.same,
            evidence,
            engine=stamp.where,
            aspect=change.aspect,
            was=change.was,
            now=change.now,
            effect=effect,
        )
    # What the plan itself tells counts before what somebody wrote down.
    if stamp.capability is not None and all(plan.device is None for plan in engine.plans):
        told = f"made {stamp.made} on {stamp.gpu or 'a GPU'}, capability {stamp.capability}"
        models = (stamp.gpu,) if stamp.gpu else ()
        built = Built(stamp.where, "stamp", stamp.capability, models, Evidence(place, 0, told))
        yield from on_targets(built, targets(facts))


def changes(stamp: Stamp, engine: EngineDir, facts: Facts) -> Iterator[Change]:
    """Every aspect that both the stamp and the inputs tell."""
    yield from _files(stamp)
    for checkpoint in facts.checkpoints:
        if checkpoint.role == "model":
            yield from _model(stamp, checkpoint)
    yield from _written(stamp.precision, precision_of(engine))
    yield from _written(stamp.shapes, shapes_of(engine))
    for target in targets(facts):
        if stamp.capability is not None and target.capability is not None:
            was, now = str(stamp.capability), str(target.capability)
            yield Change("compute capability", was, f"{now} ({target.gpu})", was == now)
            if was == now and stamp.gpu and target.model:
                yield Change("GPU model", stamp.gpu, target.model, stamp.gpu == target.model)
    now_known = {version.name: version.version for version in reversed(known_versions(facts))}
    for name in VERSIONS:
        if name in stamp.versions and name in now_known:
            was, now = stamp.versions[name], now_known[name]
            yield Change(name, was, now, same(was, now))


def _files(stamp: Stamp) -> Iterator[Change]:
    """Whether the engine is the one that was stamped."""
    odd = list(altered(Path(stamp.where), stamp.engines, fully=False))
    now = "; ".join(f"{name} {what}" for name, what in odd[:4]) or "the same"
    yield Change("engine files", "as stamped", now, not odd)


def _model(stamp: Stamp, checkpoint: Checkpoint) -> Iterator[Change]:
    folder = Path(checkpoint.where)
    revision = revision_of(folder)
    if stamp.revision and revision:
        yield Change("model revision", stamp.revision, revision, stamp.revision == revision)
    if not stamp.files:
        return
    odd = dict(altered(folder, stamp.files, fully=False))
    for aspect, part in (("model configuration", True), ("model weights", False)):
        found = [
            f"{name} {what}"
            for name, what in odd.items()
            if (name in (CONFIG, QUANTIZED, INDEX)) is part
        ]
        yield Change(aspect, "as stamped", "; ".join(found[:4]) or "the same", not found)


def _written(was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Change]:
    for name in sorted({*was, *now}):
        before, after = str(was.get(name, "not set")), str(now.get(name, "not set"))
        yield Change(name, before, after, before == after)


def _limits(engine: EngineDir, launches: tuple[Launch, ...]) -> Iterator[Observed]:
    """What a command that serves engines asks for beyond what this one was built for."""
    for launch in launches:
        if not launch.serves_engine:
            continue
        for setting, limit in _ASKED.items():
            asked, built = launch.number(setting), engine.built(limit)
            if asked is None or built is None:
                continue
            yield observed(
                f"{_PREFIX}engine_limit",
                max(0.0, asked - built),
                Evidence(launch.where_of(setting), 0, launch.command),
                engine=engine.where,
                limit=limit,
                built=built,
                asked=round(asked),
                launch=launch.where,
            )


def _batches(engine: EngineDir, facts: Facts) -> Iterator[Observed]:
    """The batch that a Triton model asks of the engine that it names."""
    built = engine.built("max_batch_size")
    for repository in facts.repositories:
        for model in repository.models:
            asked = model.max_batch_size
            if engine.where in model.engine_dirs and built is not None and asked is not None:
                yield observed(
                    f"{_PREFIX}engine_limit",
                    max(0, asked - built),
                    Evidence(model.where, 0, f"max_batch_size: {asked}"),
                    engine=engine.where,
                    limit="max_batch_size",
                    built=built,
                    asked=asked,
                    launch=model.where,
                )


@cache
def effects() -> Mapping[str, str]:
    """What a change of each aspect asks for."""
    table = load_table(rules_path() / "compat" / "rebuild.yml")
    return {aspect: str(row["effect"]) for aspect, row in table.rows.items()}
