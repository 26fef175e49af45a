"""The metrics of vLLM 0.32 (v1/metrics/loggers.py), made by the library that vLLM makes them
with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from prometheus_client import (
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    Summary,
    generate_latest,
)

from enginechaos.sim.dialects.base import Iteration, QuietPage
from enginechaos.sim.dialects.families import Families, value
from enginechaos.sim.engine import StepReport
from enginechaos.sim.life import Life
from enginechaos.sim.settings import Settings

_LATENCY: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_FIRST: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_GAP: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
_ITERATION: Final = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_HTTP: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5),
    *(10, 30, 60),
)
_UNCOUNTED: Final = ("/metrics", "/health", "/load", "/ping", "/version", "/server_info")
_REASONS: Final = ("stop", "length", "abort", "error", "repetition")


def token_buckets(longest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, ... up to the longest sequence (build_1_2_5_buckets)."""
    scale = (mantissa * 10**power for power in range(9) for mantissa in (1, 2, 5))
    return tuple(float(each) for each in scale if each <= longest)


class VllmPage(QuietPage):
    def __init__(self, settings: Settings, make: Families | None = None):
        self.settings: Final = settings
        self._make: Final = make or Families("vllm:", {"model_name": settings.model, "engine": "0"})
        self.registry: Final = self._make.registry
        GCCollector(self.registry)
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        self._gauges()
        self._counters()
        self._histograms()
        self._http()

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def step(self, report: StepReport, iteration: Iteration) -> None:
        self.running.set(report.running)
        self.waiting.set(report.waiting)
        self.by_reason["capacity"].set(report.waiting)
        self.usage.set(report.kv_usage)
        self.queries.inc(report.prefix_queries)
        self.hits.inc(report.prefix_hits)
        self.cached_from["device"].inc(report.prefix_hits)
        if report.drafts and self.drafts:
            self.drafts.inc(report.drafts)
            self.draft_tokens.inc(report.draft_tokens)
            self.accepted.inc(report.accepted)
        self.generated.inc(iteration.generated)
        for life in iteration.prompts:
            self._prompt(life)
        for gap in iteration.gaps:
            self.gap.observe(gap)
        if iteration.generated:
            prompts = sum(life.prompt_tokens for life in iteration.prompts)
            self.iteration.observe(iteration.generated + prompts)

    def preempted(self, times: int) -> None:
        self.preemptions.inc(times)

    def finished(self, life: Life, reason: str) -> None:
        self.success[reason].inc()
        if reason not in {"stop", "length"}:
            return
        self.request_prompt.observe(life.prompt_tokens)
        self.request_generation.observe(life.generated)
        self.request_max_generation.observe(life.generated)
        self.request_n.observe(1)
        self.request_max_tokens.observe(life.request.max_tokens)
        self.request_computed.observe(life.prompt_tokens - life.cached_tokens)
        self.request_preemptions.observe(life.preemptions)
        self.whole.observe(life.whole)
        self.queue_time.observe(life.queued)
        self.inference.observe(life.inference)
        self.prefill.observe(life.prefill)
        self.decode.observe(life.decode)
        self.per_token.observe(life.per_token)

    def http(self, path: str, method: str, status: int, seconds: float) -> None:
        if path in _UNCOUNTED:
            return
        self._requests.labels(path, method, f"{status // 100}xx").inc()
        self._request_size.labels(path).observe(0)
        self._response_size.labels(path).observe(0)
        self._fine.observe(seconds)
        self._coarse.labels(path, method).observe(seconds)

    def totals(self) -> tuple[float, float]:
        """Prompt and generated tokens."""
        return value(self.prompts), value(self.generated)

    def prefix_totals(self) -> tuple[float, float]:
        """Tokens asked of the prefix cache, and found in it."""
        return value(self.queries), value(self.hits)

    def running_now(self) -> int:
        return int(value(self.running))

    def waiting_now(self) -> int:
        return int(value(self.waiting))

    def usage_now(self) -> float:
        return value(self.usage)

    def _prompt(self, life: Life) -> None:
        self.first.observe(life.first - life.arrived)
        self.prompts.inc(life.prompt_tokens)
        self.source["local_compute"].inc(life.prompt_tokens - life.cached_tokens)
        self.source["local_cache_hit"].inc(life.cached_tokens)
        self.cached.inc(life.cached_tokens)

    def _gauges(self) -> None:
        for name in ("flops", "read_bytes", "write_bytes"):
            self._make.counter(f"estimated_{name}_per_gpu", f"Estimated {name} per GPU.")
        self.running = self._make.gauge(
            "num_requests_running", "Number of requests in model execution batches."
        )
        self.waiting = self._make.gauge(
            "num_requests_waiting", "Number of requests waiting to be processed."
        )
        self.by_reason = self._make.gauges(
            "num_requests_waiting_by_reason", "Number of waiting requests by reason.",
            "reason", ("capacity", "deferred"),
        )  # fmt: skip
        asleep = self._make.gauges(
            "engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping.",
            "sleep_state", ("awake", "weights_offloaded", "discard_all"),
        )  # fmt: skip
        asleep["awake"].set(1)
        self.usage = self._make.gauge(
            "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."
        )

    def _counters(self) -> None:
        self.queries = self._make.counter(
            "prefix_cache_queries", "Prefix cache queries, in tokens."
        )
        self.hits = self._make.counter("prefix_cache_hits", "Prefix cache hits, in tokens.")
        for name in ("external_prefix_cache", "mm_cache"):
            for what in ("queries", "hits"):
                self._make.counter(f"{name}_{what}", f"{name} {what}.")
        self.preemptions = self._make.counter(
            "num_preemptions", "Cumulative number of preemption from the engine."
        )
        self.prompts = self._make.counter("prompt_tokens", "Number of prefill tokens processed.")
        self.source = self._make.counters(
            "prompt_tokens_by_source", "Number of prompt tokens by source.",
            "source", ("local_compute", "local_cache_hit", "external_kv_transfer"),
        )  # fmt: skip
        self.cached = self._make.counter(
            "prompt_tokens_cached", "Number of cached prompt tokens (local + external)."
        )
        self.cached_from = self._make.counters(
            "prompt_tokens_cached_by_source", "Prefix-cache hit tokens by the cache tier that "
            "supplied them.",
            "source", ("device", "host", "p2p", "disk", "external_unspecified"),
        )  # fmt: skip
        self.generated = self._make.counter(
            "generation_tokens", "Number of generation tokens processed."
        )
        self.success = self._make.counters(
            "request_success",
            "Count of successfully processed requests.",
            "finished_reason",
            _REASONS,
        )
        without_rank = {"model_name": self.settings.model}
        replace(self._make, labels=without_rank).counters(
            "admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            "reason",
            ("max_num_queued_reqs", "max_num_queued_tokens"),
        )
        self.drafts = None
        if self.settings.speculative_tokens:
            self.drafts = self._make.counter(
                "spec_decode_num_drafts", "Number of spec decoding drafts."
            )
            self.draft_tokens = self._make.counter(
                "spec_decode_num_draft_tokens", "Number of draft tokens."
            )
            self.accepted = self._make.counter(
                "spec_decode_num_accepted_tokens", "Number of accepted tokens."
            )

    def _histograms(self) -> None:
        tokens = token_buckets(self.settings.max_model_len)
        self.request_prompt = self._make.histogram(
            "request_prompt_tokens", "Number of prefill tokens processed.", tokens
        )
        self.request_generation = self._make.histogram(
            "request_generation_tokens", "Number of generation tokens processed.", tokens
        )
        self.iteration = self._make.histogram(
            "iteration_tokens_total", "Histogram of number of tokens per engine_step.", _ITERATION
        )
        self.request_max_generation = self._make.histogram(
            "request_max_num_generation_tokens",
            "Maximum number of requested generation tokens.",
            tokens,
        )
        self.request_n = self._make.histogram(
            "request_params_n", "The n request parameter.", (1, 2, 5, 10, 20)
        )
        self.request_max_tokens = self._make.histogram(
            "request_params_max_tokens", "The max_tokens request parameter.", tokens
        )
        self.first = self._make.histogram(
            "time_to_first_token_seconds", "Time to first token in seconds.", _FIRST
        )
        self.gap = self._make.histogram(
            "inter_token_latency_seconds", "Inter-token latency in seconds.", _GAP
        )
        self.per_token = self._make.histogram(
            "request_time_per_output_token_seconds",
            "time_per_output_token_seconds per request.",
            _GAP,
        )
        self.whole = self._latency("e2e_request_latency_seconds", "e2e request latency in seconds")
        self.queue_time = self._latency(
            "request_queue_time_seconds", "time spent in WAITING phase for request"
        )
        self.inference = self._latency(
            "request_inference_time_seconds", "time spent in RUNNING phase for request"
        )
        self.prefill = self._latency(
            "request_prefill_time_seconds", "time spent in PREFILL phase for request"
        )
        self.decode = self._latency(
            "request_decode_time_seconds", "time spent in DECODE phase for request"
        )
        self.request_preemptions = self._make.histogram(
            "request_num_preemptions",
            "Number of times a request was preempted.",
            (1, 2, 3, 4, 5, 10, 20),
        )
        self.request_computed = self._make.histogram(
            "request_prefill_kv_computed_tokens", "New KV tokens computed during prefill.", tokens
        )

    def cache_config(self, blocks: int) -> None:
        """What the engine core found the KV cache to be; served from then on."""
        settings = self.settings
        tokens = (blocks - 1) * settings.block_size
        facts = {
            "block_size": settings.block_size,
            "cache_dtype": "auto",
            "enable_prefix_caching": settings.prefix_caching,
            "gpu_memory_utilization": settings.memory.utilization,
            "kv_cache_max_concurrency": tokens / settings.max_model_len,
            "kv_cache_size_tokens": tokens,
            "num_cpu_blocks": None,
            "num_gpu_blocks": blocks,
            "num_gpu_blocks_override": blocks if settings.kv_tokens else None,
            "sliding_window": None,
            **({"engine": 0} if "engine" in self._make.labels else {}),
        }
        labels = {key: str(each) for key, each in facts.items()}
        about = "Information of the LLMEngine CacheConfig"
        replace(self._make, labels=labels).gauge("cache_config_info", about).set(1)

    def _http(self) -> None:
        where: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter(
            "http_requests_total", "Total number of requests by method, status and handler.",
            ["handler", "method", "status"], **where,
        )  # fmt: skip
        self._request_size = Summary(
            "http_request_size_bytes", "Content length of incoming requests.", ["handler"], **where
        )
        self._response_size = Summary(
            "http_response_size_bytes", "Content length of responses.", ["handler"], **where
        )
        self._fine = Histogram(
            "http_request_duration_highr_seconds", "Latency with many buckets but no API specific "
            "labels.",
            buckets=_HTTP, **where,
        )  # fmt: skip
        self._coarse = Histogram(
            "http_request_duration_seconds", "Latency with only few buckets by handler.",
            ["handler", "method"], buckets=(0.1, 0.5, 1), **where,
        )  # fmt: skip

    def _latency(self, name: str, about: str) -> Histogram:
        return self._make.histogram(name, f"Histogram of {about}.", _LATENCY)
