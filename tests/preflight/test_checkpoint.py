"""Checkpoints are read by their headers, and what lies about itself is not believed."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.preflight.weights import header, write, write_checkpoint

from enginewatch.preflight.readers import checkpoint, safetensors
from enginewatch.preflight.readers.checkpoint import read_checkpoint
from enginewatch.preflight.readers.ranges import Ranges
from enginewatch.preflight.readers.safetensors import HeaderError, read_tensors

LAYER = {
    "layer.weight": ("BF16", (64, 32)),
    "layer.weight_scale": ("F32", (1,)),
    "packed": ("F4", (3, 3)),
}


def file_of(entries: object, data: int = 0, length: int | None = None) -> Ranges:
    raw = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    size = len(raw) if length is None else length
    return Ranges(io.BytesIO(size.to_bytes(8, "little") + raw + bytes(data)))


def entry(dtype: str = "U8", shape: Any = (4,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


class Counted(io.BytesIO):
    """Counts the bytes that were read."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.taken += len(found)
        return found


def test_elements_and_bytes_by_dtype() -> None:
    head, size = header(LAYER, format="pt")
    stream = Counted(head + bytes(size))
    tensors = read_tensors(Ranges(stream))
    assert tensors.elements == {"BF16": 2048, "F32": 1, "F4": 9}
    assert tensors.bytes == {"BF16": 4096, "F32": 4, "F4": 5}
    assert tensors.endings == {"weight": 1, "weight_scale": 1, "packed": 1}
    assert stream.taken == len(head)


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        (Ranges(io.BytesIO(b"")), "fewer than a header"),
        (Ranges(io.BytesIO(b"version https://git-lfs.github.com/spec/v1\n")), "Git LFS"),
        (file_of({}, length=500), "has 10"),
        (file_of({}, length=1 << 62), "more than the format allows"),
        (file_of(b"[]"), "not a JSON object"),
        (file_of(b'{"a": '), "not JSON"),
        (file_of(b"{" * 100_000), "not JSON"),
        (file_of(b'{"a":1,"a":2}'), "twice"),
        (file_of({"a": 1}), "no dtype"),
        (file_of({"a": {"dtype": "U8", "shape": [4]}}), "no dtype"),
        (file_of({"a": entry(offsets=[0, 4, 5])}, 4), "no dtype"),
        (file_of({"a": entry(offsets=[4, 0])}, 4), "can't be"),
        (file_of({"a": entry(offsets=[0, 4.0])}, 4), "can't be"),
        (file_of({"a": entry(shape=[-4])}, 4), "can't be"),
        (file_of({"a": entry(shape=[True, 4])}, 4), "can't be"),
        (file_of({"a": entry(shape=[1 << 40] * 40)}, 4), "can't be"),
        (file_of({"a": entry(shape=[5])}, 4), "would have 4 bytes"),
        (file_of({"a": entry("BF16")}, 4), "would have 4 bytes"),
        (file_of({"a": entry()}, 3), "need 4 bytes, and the file has 3"),
        (file_of({"a": entry()}, 9), "need 4 bytes, and the file has 9"),
        (file_of({"a": entry(), "b": entry(offsets=[3, 7])}, 7), "overlap"),
        (file_of({"a": entry(), "b": entry(offsets=[5, 9])}, 9), "leave a gap"),
    ],
)
def test_a_header_that_lies_is_refused(ranges: Ranges, said: str) -> None:
    with pytest.raises(HeaderError, match=said):
        read_tensors(ranges)


def test_a_type_of_tomorrow_counts_by_its_bytes() -> None:
    assert read_tensors(file_of({"a": entry("F5_NEW", [7])}, 4)).bytes == {"F5_NEW": 4}


@given(st.binary(max_size=200), st.integers(0, 300))
@settings(deadline=None, max_examples=80)
def test_rubbish_is_refused(rubbish: bytes, length: int) -> None:
    with suppress(HeaderError):
        read_tensors(file_of(rubbish, length=length))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
ENTRY = st.fixed_dictionaries(
    {}, optional={"dtype": JSON, "shape": JSON, "data_offsets": JSON | st.lists(st.integers())}
)


@given(st.dictionaries(st.text(max_size=4), ENTRY | JSON, max_size=3))
@settings(deadline=None, max_examples=80)
def test_headers_of_any_json_are_read_or_refused(entries: dict[str, Any]) -> None:
    with suppress(HeaderError):
        read_tensors(file_of(entries))


def test_all_shards_of_a_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(
        tmp_path,
        {
            "model-00001-of-00002.safetensors": {"a.weight": ("BF16", (10, 10))},
            "model-00002-of-00002.safetensors": {
                "b.weight": ("U8", (10, 5)),
                "b.weight_scale": ("F8_E4M3", (10,)),
                "b.input_scale": ("F32", (1,)),
            },
        },
        {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"},
    )
    found = read_checkpoint(tmp_path)
    assert found.unread == ()
    assert found.dtype == "bfloat16"
    assert found.weights.elements == {"BF16": 100, "U8": 50, "F8_E4M3": 10, "F32": 1}
    assert found.weights.size == 200 + 50 + 10 + 4
    assert found.calibrated == {"input_scale": 1}


def test_a_checkpoint_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    write(tmp_path / "model.safetensors", {"a": ("F16", (8,))})
    write(tmp_path / "consolidated.safetensors", {"a": ("F16", (8,))})
    assert read_checkpoint(tmp_path, "draft").weights.size == 16


def damaged_checkpoint(folder: Path) -> Path:
    write_checkpoint(folder, {"m.safetensors": {"a": ("F16", (8,)), "b": ("F16", (8,))}})
    return folder


def spoil(folder: Path, what: str) -> None:
    index = folder / "model.safetensors.index.json"
    shard = folder / "m.safetensors"
    if what == "absent":
        shard.unlink()
    elif what == "truncated":
        shard.write_bytes(shard.read_bytes()[:-1])
    elif what == "lacks":
        write(shard, {"a": ("F16", (8,))})
    elif what == "more":
        write(shard, {"a": ("F16", (8,)), "b": ("F16", (8,)), "c": ("F16", (8,))})
    elif what == "elsewhere":
        index.write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    elif what == "no map":
        index.write_text("{}")
    elif what == "no json":
        index.write_text("{'a': 1}")
    elif what == "pickles":
        index.unlink()
        shard.rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("absent", "is not a file"),
        ("truncated", "need 32 bytes, and the file has 31"),
        ("lacks", "lacks 1 tensors that the index expects, 'b'"),
        ("more", "has 1 tensors that the index does not name, 'c'"),
        ("elsewhere", "no file of this folder"),
        ("no map", "no weight_map"),
        ("no json", "not JSON"),
        ("pickles", "none as safetensors"),
    ],
)
def test_a_checkpoint_with_a_bad_part_has_no_weights(tmp_path: Path, what: str, said: str) -> None:
    spoil(damaged_checkpoint(tmp_path), what)
    found = read_checkpoint(tmp_path)
    assert found.weights is None
    assert said in found.unread[0].what


def test_a_folder_without_anything(tmp_path: Path) -> None:
    found = read_checkpoint(tmp_path)
    assert found.weights is None
    assert [each.what for each in found.unread] == ["is not a file"]


@pytest.mark.parametrize(
    ("config", "method", "format_", "kv_cache", "static"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", "", "", None),
        ({"quant_method": "gptq", "bits": 8}, "gptq", "", "", None),
        (
            {
                "quant_method": "fp8",
                "activation_scheme": "dynamic",
                "weight_block_size": [128, 128],
            },
            "fp8",
            "",
            "",
            False,
        ),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["a", "b"]}, "mxfp4", "", "", None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", "fp4", "", None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt", "NVFP4", "", None),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "nvfp4-pack-quantized",
                "kv_cache_scheme": {"num_bits": 8, "type": "float"},
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 4, "group_size": 16},
                        "input_activations": {"dynamic": False},
                    }
                },
            },
            "compressed-tensors",
            "nvfp4-pack-quantized",
            "float8",
            True,
        ),
    ],
)
def test_what_config_json_says_of_quantization(
    tmp_path: Path,
    config: dict[str, Any],
    method: str,
    format_: str,
    kv_cache: str,
    static: bool | None,
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    found = read_checkpoint(tmp_path).quantization
    assert found is not None
    assert (found.method, found.format, found.kv_cache) == (method, format_, kv_cache)
    assert found.static_activations is static


def test_model_optimizer_s_file_counts_before_config_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "fp8"}}')
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps(
            {
                "producer": {"name": "modelopt", "version": "0.27.0"},
                "quantization": {
                    "quant_algo": "NVFP4",
                    "kv_cache_quant_algo": "FP8",
                    "group_size": 16,
                    "exclude_modules": ["lm_head", "x"],
                },
            }
        )
    )
    found = read_checkpoint(tmp_path).quantization
    assert (found.format, found.kv_cache, found.group_size) == ("NVFP4", "FP8", 16)


@given(JSON)
@settings(deadline=None, max_examples=40)
def test_configurations_of_any_json_never_raise(tmp_path_factory: Any, value: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("config.json", "hf_quant_config.json"):
        (folder / name).write_text(
            json.dumps({"quantization_config": value, "quantization": value})
        )
    found = read_checkpoint(folder)
    assert isinstance(found.dtype, str)


def test_a_checkpoint_of_200_gigabytes_costs_its_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty shards of 5 GB, none of which exists on the disk but for its header."""
    rows = 5_000_000_000 // (2 * 8192 * 8)
    shards = {
        f"model-{n:05}-of-00040.safetensors": {
            f"layers.{n}.{part}.weight": ("BF16", (rows, 8192)) for part in range(8)
        }
        for n in range(40)
    }
    write_checkpoint(tmp_path, shards)
    taken = []

    class Counted(Ranges):
        def read(self, at: int, count: int) -> bytes:
            taken.append(count)
            return super().read(at, count)

    monkeypatch.setattr(safetensors, "Ranges", Counted)
    found = checkpoint.read_checkpoint(tmp_path)
    assert found.weights.size > 195_000_000_000
    assert sum(taken) < 100_000
