"""vLLM 0.8 (V1): the names before the renames, one label, and none of what came later.

Renames and their releases: docs/usage/metrics.md. The label `engine` came with data parallelism.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from enginechaos.sim.dialects.families import Families
from enginechaos.sim.dialects.vllm import Vllm
from enginechaos.sim.dialects.vllm_page import VllmPage

OLD_NAMES: Final[dict[str, str | None]] = {
    "kv_cache_usage_perc": "gpu_cache_usage_perc",
    "prefix_cache_queries": "gpu_prefix_cache_queries",
    "prefix_cache_hits": "gpu_prefix_cache_hits",
    "inter_token_latency_seconds": "time_per_output_token_seconds",
    **dict.fromkeys(
        (
            *("estimated_flops_per_gpu", "estimated_read_bytes_per_gpu"),
            *("estimated_write_bytes_per_gpu", "num_requests_waiting_by_reason"),
            *("engine_sleep_state", "external_prefix_cache_queries", "external_prefix_cache_hits"),
            *("mm_cache_queries", "mm_cache_hits", "prompt_tokens_by_source"),
            *("prompt_tokens_cached", "prompt_tokens_cached_by_source", "admission_rejections"),
            *("request_time_per_output_token_seconds", "request_num_preemptions"),
            "request_prefill_kv_computed_tokens",
        )
    ),
}


class VllmOld(Vllm):
    number = "0.8.5"

    @cached_property
    def page(self) -> VllmPage:
        labels = {"model_name": self.settings.model}
        return VllmPage(self.settings, Families("vllm:", labels, OLD_NAMES))
