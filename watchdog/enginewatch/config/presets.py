"""Where each engine serves its metrics unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Preset(NamedTuple):
    port: int
    metrics_path: str


PRESETS: Final[Mapping[str, Preset]] = {
    "vllm": Preset(8000, "/metrics"),
    # Its /metrics is JSON, and a destructive read; this one needs return_perf_metrics: true.
    "trtllm": Preset(8000, "/prometheus/metrics"),
    "triton": Preset(8002, "/metrics"),
    "nim": Preset(8000, "/v1/metrics"),
    "sglang": Preset(30000, "/metrics"),
    "dynamo": Preset(8000, "/metrics"),
}
"""Defaults by `runtime`, from each project's documentation. Other runtimes have no preset."""
