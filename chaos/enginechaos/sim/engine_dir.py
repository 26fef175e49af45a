"""A TensorRT-LLM engine directory: written for a GPU and a version, and loaded or refused as
TensorRT does.

A plan here is a head without weights: the container of TensorRT 10.6 (`ftrt`, version 2) with the
record of the GPU that it was built on, laid out as real plans of 10.1 to 10.6 are.

`python -m enginechaos.sim.engine_dir FOLDER --capability 10.0 --tensorrt 10.6.0.26` writes one.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

_TENSORRT: Final = "10.6.0.26"
_TENSORRT_LLM: Final = "1.2.1"
_ENGINE: Final = 80
"""Offset of the section NGNE in a container of two sections."""
_MAJOR: Final = 144
_MINOR: Final = 152
_VERSION: Final = 24


class _Gpu(NamedTuple):
    """Of NVIDIA's data sheets: multiprocessors, bus bits, L2 MiB, shared bytes of one, GiB."""

    multiprocessors: int
    bus: int
    cache: int
    shared: int
    memory: float


_GPUS: Final = {
    (8, 0): _Gpu(108, 5120, 40, 167_936, 80.0),  # A100
    (8, 9): _Gpu(142, 384, 96, 102_400, 45.0),  # L40S
    (9, 0): _Gpu(132, 6144, 50, 233_472, 139.8),  # H200
    (10, 0): _Gpu(148, 8192, 126, 233_472, 179.1),  # B200
    (12, 0): _Gpu(170, 512, 96, 102_400, 31.8),  # RTX 5090
}


class EngineRefused(Exception):  # noqa: N818
    """The engine can't be loaded; the text is what TensorRT and TensorRT-LLM log of it."""


@dataclass(frozen=True)
class Build:
    """What a plan was built on: compute capability, and TensorRT's version of four numbers."""

    capability: tuple[int, int]
    tensorrt: tuple[int, int, int, int]

    @classmethod
    def of(cls, capability: str, tensorrt: str) -> Self:
        """From `9.0` and `10.6.0.26`. Raises ValueError."""
        major, minor = (int(part) for part in capability.split("."))
        a, b, c, d = (int(part) for part in tensorrt.split("."))
        return cls((major, minor), (a, b, c, d))


def plan(build: Build) -> bytes:
    """The bytes of a plan that was built so. Raises KeyError for a capability not known here."""
    major, minor = build.capability
    gpu = _GPUS[build.capability]
    values = b"".join(
        (
            *(_u32(each) for each in (major, minor, 1_980_000, 3_201_000, gpu.bus)),
            *(_u64(each) for each in (gpu.cache << 20, gpu.cache << 19)),
            *(_u32(each) for each in (49_152, gpu.shared, 512)),
            *(_u32(gpu.multiprocessors), _token(0xA, b"\0")),
            *(_u32(each) for each in (1024, 2**31 - 1, 65_535, 65_535)),
            *(_u32(1024), _token(9, struct.pack("<q", int(gpu.memory * 2**30)))),
        )
    )
    version = b"".join(_token(2, bytes([part])) for part in build.tensorrt)
    body = b"".join(
        (
            *(version, _opens(0xD2), _u32(0), _opens(0x12), _opens(0x10), values),
            *(_closes(0x10), _closes(0x12), _closes(0xD2)),
        )
    )
    engine = b"ptrt" + struct.pack("<IQI", 0xEF, len(body), 0) + body
    weights = b"\0" * 64
    length = _ENGINE + len(engine) + len(weights)
    head = b"ftrt" + struct.pack("<IQQ", 0, 2, length) + bytes(build.tensorrt) + b"rtrt"
    table = b"".join(
        name + struct.pack("<IQQ", 0, offset, size)
        for name, offset, size in (
            (b"NGNE", _ENGINE, len(engine)),
            (b"THGW", _ENGINE + len(engine), len(weights)),
        )
    )
    return head + table + engine + weights


def write(folder: Path, build: Build, *, ranks: int = 1, version: str = _TENSORRT_LLM) -> None:
    """An engine directory of `ranks` plans, and its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "version": version,
        "pretrained_config": {
            "architecture": "LlamaForCausalLM",
            "dtype": "bfloat16",
            "mapping": {"world_size": ranks, "tp_size": ranks, "pp_size": 1},
            "quantization": {"quant_algo": None, "kv_cache_quant_algo": None},
        },
        "build_config": {"max_batch_size": 256, "max_num_tokens": 8192, "max_seq_len": 8192},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    for rank in range(ranks):
        (folder / f"rank{rank}.engine").write_bytes(plan(build))


def load(folder: Path, gpu: Build, ranks: int) -> str:
    """Load it on `gpu`, whose `tensorrt` is the library's; the version that its config tells.

    Raises EngineRefused, with the lines that are logged.
    """
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        version = str(config["version"])
    except (OSError, ValueError, KeyError) as failure:
        raise EngineRefused(f"Error opening engine file: {folder / 'config.json'}") from failure
    for rank in range(ranks):
        path = folder / f"rank{rank}.engine"
        try:
            found = path.read_bytes()
        except OSError as failure:
            raise EngineRefused(f"Error opening engine file: {path}") from failure
        _deserialize(found, gpu)
    return version


def _deserialize(found: bytes, gpu: Build) -> None:
    if not found.startswith(b"ftrt") or len(found) <= _MINOR:
        raise _refused(1, "Internal Error", "Serialization assertion magicTagRead failed."
                       "Magic tag does not match")  # fmt: skip
    version = tuple(found[_VERSION : _VERSION + 4])
    if version != gpu.tensorrt:
        raise _refused(
            6,
            "API Usage Error",
            "The engine plan file is not compatible with this version of TensorRT, expecting "
            f"library version {_dots(gpu.tensorrt)} got {_dots(version)}, please rebuild.",
        )
    capability = (found[_MAJOR], found[_MINOR])
    if capability != gpu.capability:
        raise _refused(
            6,
            "API Usage Error",
            "The engine plan file is generated on an incompatible device, expecting compute "
            f"{_dots(gpu.capability)} got compute {_dots(capability)}, please rebuild.",
        )


def _refused(code: int, kind: str, text: str) -> EngineRefused:
    return EngineRefused(
        f"[TRT] [E] IRuntime::deserializeCudaEngine: Error Code {code}: {kind} ({text})\n"
        "[TensorRT-LLM][ERROR] Assertion failed: Failed to deserialize cuda engine. "
        "(/app/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmRuntime.cpp:239)"
    )


def _dots(parts: Sequence[int]) -> str:
    return ".".join(map(str, parts))


def _token(kind: int, value: bytes) -> bytes:
    return struct.pack("<HH", 0x8000 | kind, 1) + value


def _u32(value: int) -> bytes:
    return _token(7, struct.pack("<I", value))


def _u64(value: int) -> bytes:
    return _token(8, struct.pack("<Q", value))


def _opens(tag: int) -> bytes:
    return struct.pack("<HH", 0x8000 | tag, 1)


def _closes(tag: int) -> bytes:
    return struct.pack("<H", 0xFFFF ^ (0x8000 | tag))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m enginechaos.sim.engine_dir")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--capability", default="9.0")
    parser.add_argument("--tensorrt", default=_TENSORRT)
    parser.add_argument("--version", default=_TENSORRT_LLM, help="TensorRT-LLM's")
    parser.add_argument("--ranks", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        build = Build.of(given.capability, given.tensorrt)
        write(given.folder, build, ranks=given.ranks, version=given.version)
    except (ValueError, KeyError):
        known = ", ".join(map(_dots, _GPUS))
        print(f"--capability is one of {known}; --tensorrt is like 10.6.0.26", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
