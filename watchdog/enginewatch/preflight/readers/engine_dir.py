"""A TensorRT-LLM engine directory (up to 1.2): its configuration and the head of each rank's plan.

`config.json` has the TensorRT-LLM version and the build's shapes, but neither GPU nor
TensorRT version (tensorrt_llm/builder.py): these are read from the plans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from enginewatch.preflight.readers.checkpoint import CONFIG
from enginewatch.preflight.readers.jsonfile import is_there, read_object, text, whole
from enginewatch.preflight.readers.plan import SUFFIXES, Plan, read_plan
from enginewatch.preflight.readers.unread import Unread, not_read

_RANK: Final = re.compile(r"rank(\d{1,5})\.engine")
_MOST_FILES: Final = 2_000
_CHECK: Final = "architecture"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDir:
    """`ranks` are the plans of `rankN.engine` by N, `others` plans under another name.

    `config` is config.json as it stands, empty without one; numbers that it does not say
    are None.
    """

    where: str
    config: Mapping[str, Any] = field(default_factory=dict)
    ranks: Mapping[int, Plan] = field(default_factory=dict)
    others: tuple[Plan, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def is_trtllm(self) -> bool:
        """Whether TensorRT-LLM built it, by the keys of its configuration."""
        return "pretrained_config" in self.config or "build_config" in self.config

    @property
    def trtllm(self) -> str:
        """The TensorRT-LLM version that built it."""
        return text(self.config, "version")

    @property
    def plans(self) -> Iterator[Plan]:
        """Of the ranks in their order, then the others."""
        yield from (self.ranks[rank] for rank in sorted(self.ranks))
        yield from self.others

    def mapping(self, name: str) -> int | None:
        """`world_size`, `tp_size`, `pp_size`, `cp_size`."""
        return whole(self.config, "pretrained_config", "mapping", name)

    @property
    def world_size(self) -> int | None:
        """Ranks that must run together, one a GPU: as it says, else the product of its parts."""
        said = self.mapping("world_size")
        parts = [self.mapping(name) for name in ("tp_size", "pp_size", "cp_size")]
        if parts[0] is None:
            return said
        product = parts[0] * (parts[1] or 1) * (parts[2] or 1)
        return max(said or 0, product)

    def built(self, name: str) -> int | None:
        """A limit of the build: `max_batch_size`, `max_num_tokens`, `max_seq_len` …"""
        return whole(self.config, "build_config", name)

    @property
    def format(self) -> str:
        """Of the weights, as the build wrote it (`FP8`); empty where they are not quantized."""
        return text(self.config, "pretrained_config", "quantization", "quant_algo")

    @property
    def kv_cache_format(self) -> str:
        """Likewise of the KV cache."""
        return text(self.config, "pretrained_config", "quantization", "kv_cache_quant_algo")

    @property
    def cluster_key(self) -> str:
        """A hint of the build's planner, which falls back to A100 for GPUs it does not know."""
        return text(self.config, "build_config", "auto_parallel_config", "cluster_key")


def read_engine_dir(folder: Path) -> EngineDir:
    """Never raises for what stands in the folder."""
    unread: list[Unread] = []
    ranks: dict[int, Plan] = {}
    others: list[Plan] = []
    config: Mapping[str, Any] = {}
    if is_there(folder / CONFIG):
        found = read_object(folder / CONFIG, "versions")
        if isinstance(found, Unread):
            unread.append(found)
        else:
            config = found
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as failure:
        what = not_read(failure)
        return EngineDir(where=str(folder), unread=(Unread(str(folder), what, _CHECK),))
    if len(names) > _MOST_FILES:
        unread.append(Unread(str(folder), f"holds {len(names)} files: no engine does", _CHECK))
        names = []
    for name in names:
        rank = _RANK.fullmatch(name)
        if rank is not None:
            ranks[int(rank[1])] = read_plan(folder / name)
        elif name.endswith(SUFFIXES):
            others.append(read_plan(folder / name))
    if not ranks and not others and not unread:
        what = "holds no rankN.engine and no other plan"
        unread.append(Unread(str(folder), what, _CHECK))
    if ranks and not is_there(folder / CONFIG):
        what = f"holds rank files and no {CONFIG}, which says how many there must be"
        unread.append(Unread(str(folder), what, _CHECK))
    return EngineDir(
        where=str(folder),
        config=config,
        ranks=ranks,
        others=tuple(others),
        unread=tuple(unread),
    )
