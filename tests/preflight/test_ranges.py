"""Hundreds of gigabytes cost their headers: what is read is counted by the kernel."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path

import pytest
from tests.preflight.planforge import forge, form, record_of
from tests.preflight.test_engine_dir import build_config
from tests.preflight.weights import write_checkpoint

from enginewatch.preflight.checks import samples
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.judge import judge, shipped_preflight

COUNTERS = Path("/proc/self/io")
RANKS = 8
EACH = 25 << 30


def read_so_far() -> int:
    found = re.search(r"rchar: (\d+)", COUNTERS.read_text())
    assert found
    return int(found[1])


def write_huge_engine(folder: Path) -> None:
    """Eight ranks of 25 GiB, of which only the first bytes are on the disk."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(build_config(tp=RANKS)))
    whole = bytearray(forge(form("C3"), record_of("H200")))
    body = EACH - 56 - 24 - 4
    whole[16:24] = EACH.to_bytes(8, "little")
    whole[48:56] = (body + 24).to_bytes(8, "little")
    whole[72:80] = body.to_bytes(8, "little")
    for rank in range(RANKS):
        with (folder / f"rank{rank}.engine").open("wb") as stream:
            stream.write(whole)
            stream.truncate(EACH)


def write_huge_checkpoint(folder: Path) -> None:
    """DeepSeek's experts: 20,000 tensors in 40 shards, 220 GB."""
    shards = {}
    for shard in range(40):
        names = (f"layers.{shard}.experts.{expert}" for expert in range(250))
        shards[f"model-{shard:05}.safetensors"] = {
            f"{name}.{part}": found
            for name in names
            for part, found in (
                ("weight", ("F8_E4M3", (2048, 10752))),
                ("weight_scale_inv", ("F32", (16, 84))),
            )
        }
    quantization = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    write_checkpoint(folder, shards, {"quantization_config": quantization})


@pytest.mark.skipif(not COUNTERS.exists(), reason="no /proc/self/io")
@pytest.mark.parametrize("what", ["engine", "checkpoint"])
def test_only_ranges_of_200_gigabytes_are_read(tmp_path: Path, what: str) -> None:
    folder = tmp_path / what
    if what == "engine":
        write_huge_engine(folder)
        inputs = {"--engine-dir": (str(folder),), "--runtime": ("tensorrt-llm=1.2.1",)}
    else:
        write_huge_checkpoint(folder)
        inputs = {"--model": (str(folder),), "--runtime": ("vllm=0.19.0",)}
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size > 200e9
    rules = shipped_preflight()
    list(samples(gather(Inputs({"--gpus": ("8xH200",)}))))  # tables of rules/compat are read once
    before, memory = read_so_far(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    judged = judge(samples(gather(Inputs(inputs | {"--gpus": ("8xH200",)}))), rules)
    assert read_so_far() - before < 16 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 150_000  # KiB
    assert not [finding for finding in judged.findings if finding.fails]
    assert judged.passed
