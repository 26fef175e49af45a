"""How the weights of a checkpoint are quantized, as its own configuration says.

Read: `hf_quant_config.json` (NVIDIA's Model Optimizer) and `quantization_config` in
`config.json` (AWQ, GPTQ, FP8, MXFP4, bitsandbytes, compressed-tensors, modelopt).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enginewatch.preflight.readers.jsonfile import at, text, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """As it is written; empty or None for what the file does not say.

    `method` names the tool's family (`modelopt`, `compressed-tensors`, `awq`), `format` the
    number format where it is told apart from that (`NVFP4`, `nvfp4-pack-quantized`).
    `static_activations`: scales of activations were fixed by a calibration run.
    """

    where: str
    method: str = ""
    format: str = ""
    kv_cache: str = ""
    bits: int | None = None
    group_size: int | None = None
    block: tuple[int, ...] = ()
    static_activations: bool | None = None

    @property
    def written(self) -> str:
        """The most telling word of the file for the format."""
        return self.format or self.method


def of_modelopt(document: Mapping[str, Any], where: str) -> Quantization | None:
    """`hf_quant_config.json`; None where it quantizes nothing."""
    own = at(document, "quantization")
    return _modelopt(own, where) if isinstance(own, dict) else None


def of_config(config: Mapping[str, Any], where: str) -> Quantization | None:
    """`quantization_config` of a `config.json`, of the language model too where that is a part."""
    own = at(config, "quantization_config")
    if not isinstance(own, dict):
        own = at(config, "text_config", "quantization_config")
    if not isinstance(own, dict):
        own = at(config, "compression_config")
    if not isinstance(own, dict):
        return None
    method = text(own, "quant_method").lower()
    if method.startswith("modelopt") or text(own, "quant_algo"):
        nested = at(own, "quantization")
        return _modelopt(nested if isinstance(nested, dict) else own, where, method)
    if method == "compressed-tensors":
        return _compressed(own, where)
    if method == "bitsandbytes":
        four = at(own, "load_in_4bit") is True
        kind = text(own, "bnb_4bit_quant_type") or "fp4"
        return Quantization(
            where=where, method=method, format=kind if four else "int8", bits=4 if four else 8
        )
    return Quantization(
        where=where,
        method=method,
        bits=whole(own, "bits"),
        group_size=whole(own, "group_size"),
        block=_block(own),
        static_activations=_static(text(own, "activation_scheme")),
    )


def _modelopt(own: Mapping[str, Any], where: str, method: str = "") -> Quantization | None:
    algo = text(own, "quant_algo")
    kv_cache = text(own, "kv_cache_quant_algo") or text(own, "kv_cache_scheme", "type")
    if not algo and not kv_cache:
        return None
    return Quantization(
        where=where,
        method=method or "modelopt",
        format=algo,
        kv_cache=kv_cache,
        group_size=whole(own, "group_size"),
    )


def _compressed(own: Mapping[str, Any], where: str) -> Quantization:
    """The scheme of most weights stands in the first group, and the format may be the group's."""
    groups = at(own, "config_groups")
    first: Any = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
    dynamic = at(first, "input_activations", "dynamic")
    kv_cache = at(own, "kv_cache_scheme")
    bits = whole(kv_cache, "num_bits")
    return Quantization(
        where=where,
        method="compressed-tensors",
        format=text(first, "format") or text(own, "format"),
        kv_cache=f"{text(kv_cache, 'type') or 'int'}{bits}" if bits else "",
        bits=whole(first, "weights", "num_bits"),
        group_size=whole(first, "weights", "group_size"),
        static_activations=not dynamic if isinstance(dynamic, bool) else None,
    )


def _block(own: Mapping[str, Any]) -> tuple[int, ...]:
    found = at(own, "weight_block_size")
    if isinstance(found, list) and all(type(size) is int for size in found):
        return tuple(found)
    return ()


def _static(scheme: str) -> bool | None:
    return {"static": True, "dynamic": False}.get(scheme.lower())
