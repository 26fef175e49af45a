"""Making the stamp of an engine, and looking whether files are still what was stamped.

Nothing in an engine says which weights it holds, on which container it was built or with
which command. `enginewatch stamp DIR` writes that down at build time; preflight compares
it with what there is now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from enginewatch.evidence.redact import redact
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.readers.checkpoint import CONFIG, INDEX, QUANTIZED, Checkpoint
from enginewatch.preflight.readers.digest import Digest, Progress, sampled, whole
from enginewatch.preflight.readers.engine_dir import EngineDir
from enginewatch.preflight.readers.jsonfile import text
from enginewatch.preflight.readers.plan import SUFFIXES, Kind
from enginewatch.preflight.readers.stampfile import Stamp
from enginewatch.preflight.readers.unread import not_read
from enginewatch.preflight.readers.versions import Version
from enginewatch.preflight.targets import Target

LIMITS: Final = (
    "max_batch_size",
    "max_num_tokens",
    "max_seq_len",
    "max_input_len",
    "max_beam_width",
    "max_draft_len",
)
VERSIONS: Final = ("tensorrt", "tensorrt-llm", "cuda", "driver")

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_MODEL_FILES: Final = (CONFIG, QUANTIZED, INDEX)


def make_stamp(
    engine: EngineDir,
    checkpoint: Checkpoint | None,
    target: Target | None,
    versions: tuple[Version, ...],
    *,
    command: str,
    made: str,
    progress: Progress | None = None,
) -> Stamp:
    """Of an engine as it was just built; every file is read in full. Raises PreflightError.

    The GPU is that of the plans; `target` is asked where they do not tell one.
    """
    folder = Path(engine.where)
    plans = list(engine.plans)
    bad = next((plan for plan in plans if plan.device is None and plan.problem), None)
    if bad is not None and bad.kind in (Kind.DAMAGED, Kind.CACHE):
        raise PreflightError(f"no engine that can be loaded: {bad.problem}", where=bad.where)
    if not plans:
        raise PreflightError("holds no rankN.engine and no other plan", where=str(folder))
    device = next((plan.device for plan in plans if plan.device is not None), None)
    models = next((plan.models for plan in plans if plan.models), ())
    one_of = target is not None and target.model in models
    if target is not None and (device is None or one_of):
        gpu = target.model or target.gpu
    else:
        gpu = models[0] if len(models) == 1 else ""
    return Stamp(
        where=str(folder),
        made=made,
        engines=_digests(folder, _engine_files(folder), progress),
        model=checkpoint.where if checkpoint else "",
        revision=revision_of(Path(checkpoint.where)) if checkpoint else "",
        files=_digests(Path(checkpoint.where), model_files(checkpoint), progress)
        if checkpoint
        else {},
        precision=precision_of(engine),
        shapes=shapes_of(engine),
        gpu=gpu,
        capability=device.capability if device else target.capability if target else None,
        versions=_versions(engine, versions),
        command=redact(command),
    )


def _digests(folder: Path, names: Iterator[str], progress: Progress | None) -> dict[str, Digest]:
    try:
        return {name: whole(folder / name, progress) for name in names}
    except OSError as failure:
        what = not_read(failure)
        raise PreflightError(what, where=str(folder)) from None


def _engine_files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and (path.suffix in SUFFIXES or path.name == CONFIG):
            yield path.name


def model_files(checkpoint: Checkpoint) -> Iterator[str]:
    """Configuration and weights of a checkpoint, by name."""
    folder = Path(checkpoint.where)
    for name in _MODEL_FILES:
        if (folder / name).is_file():
            yield name
    for path in sorted(folder.glob("*.safetensors")):
        if path.is_file():
            yield path.name


def revision_of(folder: Path) -> str:
    """The commit of a checkpoint as the hub's client keeps it; empty where nothing tells it."""
    resolved = folder.resolve()
    if resolved.parent.name == "snapshots" and _COMMIT.fullmatch(resolved.name):
        return resolved.name
    note = folder / ".cache" / "huggingface" / "download" / f"{CONFIG}.metadata"
    try:
        with note.open(encoding="utf-8", errors="replace") as stream:
            first = stream.readline(100).strip()
    except OSError:
        return ""
    return first if _COMMIT.fullmatch(first) else ""


def precision_of(engine: EngineDir) -> dict[str, str]:
    """Number formats of weights, KV cache and activations, as far as the engine tells."""
    found = {
        "format": engine.format,
        "kv_cache_format": engine.kv_cache_format,
        "dtype": text(engine.config, "pretrained_config", "dtype"),
    }
    return {name: value for name, value in found.items() if value}


def shapes_of(engine: EngineDir) -> dict[str, int]:
    """Limits of the build (sequences, tokens) and parallel sizes (GPUs), as far as it tells."""
    found = {name: engine.built(name) for name in LIMITS}
    found |= {name: engine.mapping(name) for name in ("tp_size", "pp_size")}
    return {name: value for name, value in found.items() if value is not None}


def _versions(engine: EngineDir, known: tuple[Version, ...]) -> dict[str, str]:
    """As the engine tells them, else as declared or installed where it was built."""
    own = {"tensorrt-llm": engine.trtllm}
    own["tensorrt"] = next((plan.tensorrt for plan in engine.plans if plan.tensorrt), "")
    for version in known:
        if version.name in VERSIONS and not own.get(version.name):
            own[version.name] = version.version
    return {name: value for name, value in own.items() if value}


def altered(
    folder: Path, stamped: Mapping[str, Digest], *, fully: bool, progress: Progress | None = None
) -> Iterator[tuple[str, str]]:
    """Files that are no longer what was stamped, each with what became of it.

    `fully` reads all of them; else sizes and samples are compared (`readers/digest.py`).
    """
    for name, was in stamped.items():
        path = folder / name
        try:
            if not path.is_file():
                yield name, "is gone"
                continue
            if path.stat().st_size != was.size:
                yield name, "has another size"
                continue
            now = whole(path, progress) if fully and was.whole else sampled(path)
        except OSError as failure:
            yield name, not_read(failure)
            continue
        if now.sampled != was.sampled or (now.whole and now.whole != was.whole):
            yield name, "has another content"
