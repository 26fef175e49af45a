"""`enginewatch preflight --example`: a small folder to try it on, wrong in ways that are common.

An engine that was built on an H100 by an older TensorRT-LLM, a launch script of vLLM, a
checkpoint in four bits, two evaluations of it, and a manifest. All of it is a few hundred
kilobytes: engines have the head that TensorRT writes, and nothing after it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from enginewatch.preflight.errors import PreflightError

FOLDER: Final = "preflight-example"

COMMANDS: Final = (
    "--engine-dir engine --gpus 4xB200 --runtime tensorrt-llm=1.2.1 --runtime tensorrt=10.14.1.48",
    "--script launch.sh --gpus 4xH100 --workload prompt=3000,decode=300",
    "--model checkpoint --gpus H200 --evals evals/nvfp4.csv --baseline-evals evals/bf16.csv",
    "--manifest deployment.yml --gpus 4xH200",
)
"""What to try in the folder, options of `enginewatch preflight`; the README shows these."""

_LAUNCH: Final = """\
#!/bin/sh
# Llama 3.1 70B on four H100, with a draft model.
export VLLM_RPC_TIMEOUT=600000
exec vllm serve meta-llama/Llama-3.1-70B-Instruct \\
  --tensor-parallel-size 4 \\
  --max-model-len 32768 \\
  --max-num-seqs 256 \\
  --max-num-batched-tokens 1024 \\
  --gpu-memory-utilization 0.92 \\
  --speculative-config '{"model": "meta-llama/Llama-3.1-8B-Instruct", "num_speculative_tokens": 5}'
"""

_DEPLOYMENT: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
spec:
  selector:
    matchLabels: {app: chat}
  template:
    metadata:
      labels: {app: chat}
    spec:
      containers:
        - name: engine
          image: vllm/vllm-openai:v0.11.0
          args:
            - --model=meta-llama/Llama-3.1-8B-Instruct
            - --tensor-parallel-size=4
            - --max-num-seqs=128
            - --max-num-batched-tokens=8192
          env:
            - {name: VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS, value: "300"}
          livenessProbe:
            httpGet: {path: /health, port: 8000}
            periodSeconds: 10
            failureThreshold: 3
          resources:
            limits: {nvidia.com/gpu: 4}
"""

_ENGINE: Final[Mapping[str, Any]] = {
    "version": "1.1.0",
    "pretrained_config": {
        "architecture": "LlamaForCausalLM",
        "dtype": "bfloat16",
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_size": 128,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
        "mapping": {"world_size": 4, "tp_size": 4, "pp_size": 1, "cp_size": 1},
    },
    "build_config": {
        "max_input_len": 8192,
        "max_seq_len": 16384,
        "max_batch_size": 256,
        "max_beam_width": 1,
        "max_num_tokens": 8192,
        "plugin_config": {"gemm_plugin": "auto", "paged_kv_cache": True, "tokens_per_block": 32},
    },
}

_CHECKPOINT: Final[Mapping[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
}
_QUANTIZED: Final[Mapping[str, Any]] = {
    "producer": {"name": "modelopt", "version": "0.37.0"},
    "quantization": {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": None,
        "group_size": 16,
        "exclude_modules": ["lm_head"],
    },
}
_TASKS: Final = 1_319
"""As many as GSM8K has."""


def write_example(parent: Path) -> Path:
    """Write the folder into `parent`. Raises PreflightError where it is there already."""
    folder = parent / FOLDER
    try:
        folder.mkdir()
        for name, content in _files():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
    except OSError as failure:
        what = f"can't write {folder}: {failure.strerror}"
        raise PreflightError(what, where="--example", hint="take it away first") from None
    return folder


def _files() -> Iterator[tuple[str, bytes]]:
    yield "launch.sh", _LAUNCH.encode()
    yield "deployment.yml", _DEPLOYMENT.encode()
    yield "engine/config.json", _json(_ENGINE)
    for rank in range(4):
        yield f"engine/rank{rank}.engine", _plan()
    yield "checkpoint/config.json", _json(_CHECKPOINT)
    yield "checkpoint/hf_quant_config.json", _json(_QUANTIZED)
    yield "checkpoint/model.safetensors", _weights()
    yield "evals/bf16.csv", _scores(lost=0)
    yield "evals/nvfp4.csv", _scores(lost=102)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def _scores(lost: int) -> bytes:
    """Five in six are right before; `lost` of them no longer are: what round-to-nearest costs
    an 8B model on GSM8K in four bits (7.7 points)."""
    rows = ["family,task,score"]
    right = 0
    for task in range(_TASKS):
        passed = task % 6 > 0
        right += passed
        rows.append(f"gsm8k,{task},{int(passed and right > lost)}")
    return "\n".join(rows).encode() + b"\n"


def _weights() -> bytes:
    """A safetensors file of four-bit weights with their scales, all zeros."""
    tensors: dict[str, tuple[str, list[int], int]] = {
        "model.embed_tokens.weight": ("BF16", [256, 64], 2),
        "model.norm.weight": ("BF16", [64], 2),
    }
    for layer in range(2):
        at = f"model.layers.{layer}"
        for name, rows, columns in _linears():
            tensors[f"{at}.{name}.weight"] = ("U8", [rows, columns // 2], 1)
            tensors[f"{at}.{name}.weight_scale"] = ("F8_E4M3", [rows, columns // 16], 1)
            tensors[f"{at}.{name}.weight_scale_2"] = ("F32", [], 4)
            tensors[f"{at}.{name}.input_scale"] = ("F32", [], 4)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}.{name}.weight"] = ("BF16", [64], 2)
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape, width) in tensors.items():
        size = width
        for extent in shape:
            size *= extent
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    return struct.pack("<Q", len(told)) + told + bytes(end)


def _linears() -> Iterator[tuple[str, int, int]]:
    yield from (
        ("self_attn.q_proj", 64, 64),
        ("self_attn.k_proj", 32, 64),
        ("self_attn.v_proj", 32, 64),
        ("self_attn.o_proj", 64, 64),
        ("mlp.gate_proj", 128, 64),
        ("mlp.up_proj", 128, 64),
        ("mlp.down_proj", 64, 128),
    )


_VERSION: Final = (10, 13, 3, 9)
_RECORD: Final = (
    ("<q", 9, 85_014_740_992),  # memory of an H100 SXM, bytes
    ("<Q", 8, 50 << 20),  # L2
    ("<Q", 8, 32 << 20),  # of it, what can be kept
    ("<I", 7, 1_980_000),  # clock of an SM, kHz
    ("<I", 7, 2_619_000),  # of memory
    ("<I", 7, 5_120),  # bits of the memory bus
    ("<I", 7, 49_152),  # shared memory of a block
    ("<I", 7, 233_472),  # of an SM
    ("<I", 7, 132),  # SMs
    ("<I", 7, 0),
    ("<I", 7, 1_024),
    ("<I", 7, 1_024),
    ("<I", 7, 9),  # compute capability
    ("<I", 7, 0),
    ("<I", 7, 512),
)
"""The device record of TensorRT 10.9 and later: format, type of the token, value."""


def _plan() -> bytes:
    """The head of a plan as `readers.plan` has its layout, with an engine of no content."""
    body = b"".join(struct.pack("<HHB", 0x8002, 1, number) for number in _VERSION)
    body += struct.pack("<HHHHI", 0x80D2, 1, 0x8007, 1, 0)
    body += bytes.fromhex("1280010010800100")
    for form, kind, value in _RECORD:
        body += struct.pack("<HH", 0x8000 | kind, 1) + struct.pack(form, value)
    body += bytes.fromhex("ef7fed7f") + struct.pack("<HHI", 0x8007, 1, 256) + bytes(64 << 10)
    block = b"ptrt" + struct.pack("<IQI", 0xEF, len(body), 0) + body
    sections = struct.pack("<4sIQQ", b"NGNE", 0, 80, len(block))
    sections += struct.pack("<4sIQQ", b"THGW", 0, 80 + len(block), 16)
    size = 80 + len(block) + 16
    return (
        struct.pack("<4sIQQ4B4s", b"ftrt", 0, 2, size, *_VERSION, b"rtrt")
        + sections
        + block
        + bytes(16)
    )
