"""vLLM 0.32's log lines, as it wrote them when these things happened to it
(tests/data/*.engine.log)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from enginechaos.sim.dialects.vllm_page import VllmPage
from enginechaos.sim.engine import Engine
from enginechaos.sim.settings import Settings
from enginechaos.sim.voice import Voice

_DEAD: Final = (
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
    "See stack trace (above) for the root cause."
)


class VllmServerLog:
    def __init__(self, settings: Settings, version: str, page: VllmPage):
        self._settings: Final = settings
        self._version: Final = version
        self._page: Final = page
        self._say: Final = Voice("APIServer")
        self._told = (0.0, 0.0)
        self._idle = False

    def starting(self) -> None:
        settings = self._settings
        given = {
            "model": settings.model,
            "max_model_len": settings.max_model_len,
            "tensor_parallel_size": settings.tensor_parallel,
            "max_num_batched_tokens": settings.max_num_batched_tokens,
            "max_num_seqs": settings.max_num_seqs,
        }
        self._say.info("api_utils.py:347", f"version {self._version}")
        self._say.info("api_utils.py:286", f"non-default args: {given}")
        if settings.chunked_prefill:
            self._say.info(
                "vllm.py:1290",
                "Chunked prefill is enabled with "
                f"max_num_batched_tokens={settings.max_num_batched_tokens}.",
            )

    def serving(self) -> None:
        where = f"http://{self._settings.host}:{self._settings.port}"
        self._say.info("entry.py:140", f"Starting vLLM server on {where}")

    def start_failed(self) -> None:
        self._say.error(
            "launcher.py:120",
            "RuntimeError: Engine core initialization failed. See root cause above. "
            "Failed core proc(s): {'EngineCore': 1}",
        )

    def interval(self, seconds: float) -> None:
        """Silent once two intervals without a token have passed, as vLLM's is."""
        prompts, tokens = self._page.totals()
        before, self._told = self._told, (prompts, tokens)
        idle = before == self._told
        if idle and self._idle:
            return
        self._idle = idle
        queries, hits = self._page.prefix_totals()
        self._say.info(
            "loggers.py:335",
            f"Engine 000: Avg prompt throughput: {(prompts - before[0]) / seconds:.1f} tokens/s, "
            f"Avg generation throughput: {(tokens - before[1]) / seconds:.1f} tokens/s, "
            f"Running: {self._page.running_now()} reqs, Waiting: {self._page.waiting_now()} reqs, "
            f"GPU KV cache usage: {100 * self._page.usage_now():.1f}%, "
            f"Prefix cache hit rate: {100 * hits / queries if queries else 0:.1f}%",
        )

    def engine_died(self, waiting: int, *, silently: bool) -> None:
        if silently:
            self._say.info(
                "utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore"
            )
            self._say.warning(
                "core_client.py:817",
                "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
            )
        self._say.error(
            "async_llm.py:906",
            f"AsyncLLM output_handler failed.\nTraceback (most recent call last):\n{_DEAD}",
        )
        for _ in range(waiting):
            self._say.error(
                "serving.py:500",
                "Error in completion stream generator.\nTraceback (most recent call "
                f"last):\n{_DEAD}",
            )

    def shutdown(self, killed: Sequence[tuple[str, int]]) -> None:
        say = self._say
        say.info("core_client.py:770", "[shutdown] MPClient: start timeout=0s")
        say.info("core_client.py:772", "[shutdown] MPClient: stopping engine manager")
        for title, pid in killed:
            say.warning(
                "system_utils.py:225", f"[shutdown] force killing sub process {title} pid {pid}"
            )
        say.info("core_client.py:774", "[shutdown] MPClient: engine manager stopped")
        say.info("core_client.py:777", "[shutdown] MPClient: complete")


class VllmCoreLog:
    def __init__(self, settings: Settings, version: str):
        self._settings: Final = settings
        self._version: Final = version
        self._say: Final = Voice("EngineCore")

    def started(self, blocks: int) -> None:
        settings = self._settings
        tokens = (blocks - 1) * settings.block_size
        self._say.info(
            "core.py:133",
            f"Initializing a V1 LLM engine (v{self._version}) with config: {self._config()}",
        )
        self._say.info(
            "kv_cache_utils.py:2327",
            f"GPU KV cache size: {tokens:,} tokens, Maximum concurrency for "
            f"{settings.max_model_len:,} tokens "
            f"per request: {tokens / settings.max_model_len:.2f}x",
        )
        self._say.info(
            "core.py:402", "init engine (profile, create kv cache, warmup model) took 0.02 s"
        )

    def no_memory_to_start(self, message: str) -> None:
        self._say.error(
            "core.py:1505",
            f"EngineCore failed to start.\nTraceback (most recent call last):\n{message}",
        )

    def step_is_late(self) -> None:
        seconds = f"{self._settings.ringbuffer_warning_interval:g}"
        self._say.info(
            "shm_broadcast.py:871",
            f"No available shared memory broadcast block found in {seconds} seconds. This "
            "typically happens when "
            "some processes are hanging or doing some time-consuming work "
            "(e.g. compilation, weight/kv cache quantization).",
        )

    def step_timed_out(self, engine: Engine) -> None:
        self._dump(engine)
        self._fatal(
            "TimeoutError\n\nThe above exception was the direct cause of the following "
            "exception:\n\n"
            "Traceback (most recent call last):\nTimeoutError: RPC call to execute_model timed out."
        )

    def rank_died(self, rank: int, code: int) -> None:
        self._say.error(
            "multiproc_executor.py:312",
            f"Worker proc VllmWorker-{rank} died unexpectedly (exit code: {code}), shutting down "
            "executor.",
        )
        self._fatal("RuntimeError: Executor failed.")

    def out_of_memory(self, message: str, engine: Engine) -> None:
        if self._settings.tensor_parallel > 1:
            worker = Voice("Worker_TP0")
            worker.error(
                "multiproc_executor.py:920",
                "WorkerProc hit an exception.\nTraceback (most recent call "
                f"last):\ntorch.OutOfMemoryError: {message}",
            )
        self._dump(engine)
        self._fatal(f"torch.OutOfMemoryError: {message}")

    def _fatal(self, cause: str) -> None:
        self._say.error(
            "core.py:1512",
            f"EngineCore encountered a fatal error.\nTraceback (most recent call last):\n{cause}",
        )
        ranks = self._settings.tensor_parallel
        if ranks > 1:
            self._say.info(
                "multiproc_executor.py:479",
                f"[shutdown] Executor: waiting for worker exit count={ranks}",
            )

    def _dump(self, engine: Engine) -> None:
        """What vLLM writes of the batch that it died in (logging_utils/dump_input.py)."""
        running = engine.scheduler.running
        drafts = engine.limits.speculative_tokens
        scheduled = ", ".join(
            f"{each.id}: {1 + drafts if each.decoding else 1}" for each in running
        )
        self._say.error(
            "dump_input.py:72",
            f"Dumping input data for V1 LLM engine (v{self._version}) with config: "
            f"{self._config()}",
        )
        self._say.error(
            "dump_input.py:79",
            "Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[], "
            f"num_scheduled_tokens={{{scheduled}}}, scheduled_spec_decode_tokens={{}})",
        )
        self._say.error(
            "dump_input.py:81",
            f"Dumping scheduler stats: SchedulerStats(num_running_reqs={len(running)}, "
            f"num_waiting_reqs={len(engine.scheduler.waiting)}, "
            f"kv_cache_usage={engine.pool.usage})",
        )

    def _config(self) -> str:
        settings = self._settings
        drafts = settings.speculative_tokens
        speculative = (
            f"SpeculativeConfig(method='draft_model', num_spec_tokens={drafts})" if drafts else None
        )
        return (
            f"model='{settings.model}', speculative_config={speculative}, "
            f"tokenizer='{settings.model}', "
            f"dtype=torch.bfloat16, max_seq_len={settings.max_model_len}, load_format=auto, "
            f"tensor_parallel_size={settings.tensor_parallel}, pipeline_parallel_size=1, "
            "data_parallel_size=1, "
            f"quantization={None if settings.format == 'bf16' else settings.format}, "
            "enforce_eager=True, "
            f"kv_cache_dtype=auto, served_model_name={settings.model}, "
            f"enable_prefix_caching={settings.prefix_caching}, "
            f"enable_chunked_prefill={settings.chunked_prefill}"
        )
