"""`sim.yml`: what is simulated. Every key has a default; an unknown one is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from enginechaos.sim.errors import SimError
from enginechaos.sim.memory import GIB, MIB, Model

DialectName = Literal["vllm", "vllm-old", "trtllm", "triton", "sglang", "nim"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MemorySettings(_Section):
    """Of one GPU; each tensor-parallel rank has one of its own, and 1/n of weights and KV cache."""

    total_gib: float = Field(default=139.8, gt=0)
    """What CUDA calls the capacity: an H200's."""
    utilization: float = Field(default=0.92, gt=0, le=1)
    weights_gib: float = Field(default=15.0, ge=0)
    draft_weights_gib: float = Field(default=0.0, ge=0)
    profiles_draft: bool = True
    """False: the KV pool is sized without the draft model, as by releases of vllm#14067."""
    kv_kib_per_token: float = Field(default=128.0, gt=0)
    draft_kv_kib_per_token: float = Field(default=0.0, ge=0)
    vocabulary: int = Field(default=128_256, gt=0)
    activation_kib_per_token: float = Field(default=195.0, ge=0)
    logit_copies: int = Field(default=3, ge=1)
    context_mib: float = Field(default=500.0, ge=0)

    def model(self, ranks: int) -> Model:
        """What one of `ranks` holds. Logits are gathered: every rank has all of them."""
        return Model(
            weights=int(self.weights_gib * GIB / ranks),
            draft_weights=int(self.draft_weights_gib * GIB / ranks),
            kv_per_token=int(self.kv_kib_per_token * 1024 / ranks),
            draft_kv_per_token=int(self.draft_kv_kib_per_token * 1024 / ranks),
            vocabulary=self.vocabulary,
            activations_per_token=int(self.activation_kib_per_token * 1024 / ranks),
            logit_copies=self.logit_copies,
            context=int(self.context_mib * MIB),
        )


class RankSettings(_Section):
    """How tensor-parallel ranks reach each other: every step has `collectives` of them together."""

    link: Literal["unix", "tcp"] = "unix"
    listen: str = Field(default="127.0.0.1:0", pattern=r"^[\w.-]+:\d+$")
    """TCP: where rank 0 waits for the others; port 0 is any that is free."""
    through: str | None = Field(default=None, pattern=r"^[\w.-]+:\d+$")
    """TCP: where the others connect instead, such as a proxy that delays what it passes on."""
    launch: tuple[tuple[str, ...], ...] = ()
    """Words before each rank's command: `[[ip, netns, exec, left], [ip, netns, exec, right]]`."""
    collectives: int = Field(default=2, ge=1)


class Settings(_Section):
    dialect: DialectName = "vllm"
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)
    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Triton: where its metrics are, the API's port plus 2 by default."""
    model: str = "demo-llama"
    version: str | None = None
    """What it says it is; the dialect's own by default."""
    seed: int = 0
    tensor_parallel: int = Field(default=1, ge=1, le=8)
    max_model_len: int = Field(default=8192, ge=16)
    max_num_seqs: int = Field(default=256, ge=1)
    max_num_batched_tokens: int = Field(default=2048, ge=1)
    chunked_prefill: bool = True
    prefix_caching: bool = True
    block_size: int = Field(default=16, ge=1)
    kv_tokens: int | None = Field(default=None, ge=16)
    """Size of the KV cache; by default what memory leaves (vLLM's --num-gpu-blocks-override)."""
    speculative_tokens: int = Field(default=0, ge=0)
    acceptance: float = Field(default=0.7, ge=0, le=1)
    """The chance that a draft token is accepted if all before it were."""
    format: str = "bf16"
    """A row of damage.yml: the numeric format that weights and activations go through."""
    timing: str | None = None
    memory: MemorySettings = MemorySettings()
    ranks: RankSettings = RankSettings()
    execute_model_timeout: float = Field(default=300.0, gt=0)
    """VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS. With one rank nothing has a deadline, as in vLLM."""
    ringbuffer_warning_interval: float = Field(default=60.0, gt=0)
    startup_seconds: float = Field(default=0.5, ge=0)
    log_file: Path | None = None
    gpu_file: Path | None = None
    """JSON of `enginewatch.nvml.simulation`: written, and shared with whoever claims memory in
    it."""
    gpu_name: str = "NVIDIA H200"
    capability: tuple[int, int] = (9, 0)
    """Compute capability of the simulated GPUs."""
    tensorrt: str = Field(default="10.6.0.26", pattern=r"^\d+\.\d+\.\d+\.\d+$")
    """Version of the TensorRT library that loads `engine_dir`."""
    engine_dir: Path | None = None
    """A TensorRT-LLM engine directory: loaded, or refused as TensorRT refuses it."""

    @model_validator(mode="after")
    def _budget(self) -> Settings:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be greater than or "
                "equal to "
                f"max_num_seqs ({self.max_num_seqs})."
            )
        if self.engine_dir is not None and self.dialect not in {"trtllm", "triton", "nim"}:
            raise ValueError(f"engine_dir: {self.dialect} loads no TensorRT engines")
        return self

    def behaviour(self) -> dict[str, Any]:
        """All that decides what the engine does, the same in every run: no files and ports, and
        not how its ranks find each other."""
        paths = {name for name, field in type(self).model_fields.items() if _is_path(field)}
        places = {"host", "port", "metrics_port", *paths}
        ways = {"listen", "through", "launch"}
        kept: dict[str, Any] = self.model_dump(mode="json", exclude={*places, "ranks"})
        return {**kept, "ranks": self.ranks.model_dump(mode="json", exclude=ways)}


def _is_path(field: FieldInfo) -> bool:
    return Path in (field.annotation, *get_args(field.annotation))


def load(path: Path, **changes: Any) -> Settings:
    """Read `sim.yml`; `changes` that are not None win. Paths in it are relative to it. Raises
    SimError."""
    try:
        given = yaml.safe_load(path.read_text("utf-8")) or {}
    except OSError as failure:
        raise SimError(f"can't be read: {failure.strerror}", where=str(path)) from failure
    except (yaml.YAMLError, UnicodeDecodeError) as failure:
        raise SimError(f"is not YAML: {failure}", where=str(path)) from failure
    if not isinstance(given, dict):
        raise SimError("is not a mapping", where=str(path), hint="keys such as `port: 8000`")
    given |= {key: value for key, value in changes.items() if value is not None}
    for key in ("log_file", "gpu_file", "engine_dir"):
        if isinstance(given.get(key), str):
            given[key] = (path.parent / given[key]).resolve()
    try:
        return Settings.model_validate(given)
    except ValidationError as failure:
        first = failure.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SimError(first["msg"], where=f"{path}: {key}" if key else str(path)) from failure
