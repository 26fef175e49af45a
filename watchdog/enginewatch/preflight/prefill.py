"""The token budget of a step against what decodes ask of it, and against prompts.

A step has `max_num_batched_tokens` tokens. Running requests take `1 + drafted` each, oldest
first, and prompts get what is left. So a small budget starves prompts, and starves decodes
only where requests times `1 + drafted` is more than it; a large one makes every step that
carries a prompt long, which is what users feel as stalls between tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from enginewatch.evidence.tables import load_table
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import compile_re2
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.memory import weight_bytes
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.readers.demand import Demand
from enginewatch.preflight.served import Served, Step, served
from enginewatch.preflight.shapes import parameters
from enginewatch.rulepack import rules_path

_PREFIX: Final = "enginewatch_preflight_prefill"


class StepTime(NamedTuple):
    """Seconds of a step without prompts, and what each token of a prompt adds."""

    quiet_s: float
    token_s: float
    measured: bool

    def of(self, tokens: int) -> float:
        """Seconds of a step that reads so many tokens of prompts."""
        return self.quiet_s + self.token_s * tokens


class Advice(NamedTuple):
    """A budget for a workload. `needed` keeps prompts and answers in step at this batch;
    `most` is the largest within the wanted latency, None where none is wanted or no step time
    is known; `budget` is what to set."""

    budget: int
    needed: int
    most: int | None
    ratio: float
    step: StepTime | None


def advise(
    demand: Demand, sequences: int, speculative: int, step: StepTime | None
) -> Advice | None:
    """The budget for a workload; None where its prompts and answers are not told.

    In a steady state each token that is written is matched by `prompt / decode` tokens to be
    read, so `B` requests need `B (1 + drafted) + B prompt / decode` tokens a step (SARATHI's
    chunk for a ratio of prompt to decode). The most that keeps a step within the latency is
    `(margin x latency - quiet) / token`, rounded down to whole tiles (Sarathi-Serve: the maximum
    number of tokens without violating the latency). Margin and tile are in
    `rules/compat/steps.yml`.
    """
    if not demand.prompt or not demand.decode:
        return None
    batch = demand.batch or sequences
    ratio = demand.prompt / demand.decode
    needed = _up(batch * (1 + speculative) + batch * ratio)
    most = None
    if demand.itl_s is not None and step is not None:
        most = _down((_constant("margin") * demand.itl_s - step.quiet_s) / step.token_s)
    floor = _up(batch * (1 + speculative) + 1)
    budget = needed if most is None else max(most, floor)
    return Advice(budget, needed, most, ratio, step)


def _down(tokens: float) -> int:
    return _tiles(math.floor(tokens / _constant("tile")))


def _up(tokens: float) -> int:
    return _tiles(math.ceil(tokens / _constant("tile")))


def _tiles(count: int) -> int:
    return int(max(_constant("smallest"), count * _constant("tile")))


@cache
def _constant(name: str) -> float:
    """Of `rules/compat/steps.yml`."""
    rows: Any = load_table(rules_path() / "compat" / "steps.yml").rows
    return float(rows[name]["value"])


def step_time(each: Served) -> StepTime | None:
    """As measured, else by the roofline: weights are read once a step, and each token costs two
    operations for each parameter that is active for it. None where the GPU is not known."""
    demand = each.demand
    if demand is not None and demand.quiet_s is not None and demand.prefill_s is not None:
        return StepTime(demand.quiet_s, demand.prefill_s, measured=True)
    peak = _peak(each.gpus.model) if each.gpus else None
    if peak is None or each.model is None:
        return None
    shape = each.model.shape
    count = parameters(shape)
    share = shape.active / shape.experts if shape.experts else 1.0
    active = count.attention + count.mlp + count.experts * share + count.head
    # A batch of any size reads most experts of a layer.
    read = weight_bytes(shape, each.model.format)
    world = each.world
    return StepTime(
        quiet_s=read / (peak.bandwidth * 1e9 * _constant("moved") * world),
        token_s=2 * active / (peak.tflops * 1e12 * _constant("computed") * world),
        measured=False,
    )


class _Peak(NamedTuple):
    gpu: Any
    tflops: float
    bandwidth: float


@cache
def _peaks() -> tuple[_Peak, ...]:
    rows: Any = load_table(rules_path() / "compat" / "throughput.yml").rows.values()
    return tuple(_Peak(compile_re2(row["gpu"]), row["tflops"], row["bandwidth"]) for row in rows)


def ridge_tokens(gpu: str) -> float | None:
    """Tokens of a step above which it is bound by arithmetic and no longer by reading the weights,
    so that each drafted token costs what it did not before; None for a GPU that is not known.

    Peak operations over bandwidth: 206 on an H200, 295 on an H100 (dense bf16, short contexts).
    """
    peak = _peak(gpu)
    return None if peak is None else peak.tflops * 1e3 / peak.bandwidth


def _peak(gpu: str) -> _Peak | None:
    return next((each for each in _peaks() if each.gpu.search(gpu.lower())), None)


def samples(facts: Facts) -> Iterator[Observed]:
    """Tokens of the budget, what decodes ask of it, what is left, and prompts against that."""
    for each in served(facts):
        if each.step is not None and each.step.tokens > 0 and each.is_told:
            yield from _of_step(each, each.step)


def _of_step(each: Served, step: Step) -> Iterator[Observed]:
    launch, demand = each.launch, each.demand
    labels = {**each.labels, "budget": "given" if step.tokens_given else "default"}
    evidence = Evidence(launch.where_of("max_num_batched_tokens"), 0, launch.command)
    yield observed(f"{_PREFIX}_budget_tokens", step.tokens, evidence, **labels)
    yield observed(f"{_PREFIX}_speculative_tokens", each.speculative, evidence, **labels)
    if step.sequences:
        asked = step.sequences * (1 + each.speculative)
        yield observed(f"{_PREFIX}_decode_tokens", asked, evidence, **labels)
        yield observed(f"{_PREFIX}_sequences", step.sequences, evidence, **labels)
    batch = demand.batch if demand and demand.batch else None
    if batch is not None:
        running = min(batch, step.sequences) if step.sequences else batch
        yield observed(
            f"{_PREFIX}_expected_decode_tokens",
            running * (1 + each.speculative),
            evidence,
            **labels,
        )
    prompt = demand.prompt if demand and demand.prompt else None
    if prompt is not None:
        yield observed(f"{_PREFIX}_prompt_tokens", prompt, evidence, **labels)
    threshold = launch.number("long_prefill_token_threshold") or 0
    yield observed(f"{_PREFIX}_long_threshold_tokens", threshold, evidence, **labels)
    chunked = launch.value("chunked_prefill")
    default = launch.runtime != "trtllm"
    yield observed(
        f"{_PREFIX}_chunked", default if chunked is None else chunked is True, evidence, **labels
    )
    if each.length:
        yield observed(f"{_PREFIX}_longest_tokens", each.length, evidence, **labels)
    yield from _of_time(each, step, labels, evidence)


def _of_time(
    each: Served, step: Step, labels: dict[str, str], evidence: Evidence
) -> Iterator[Observed]:
    demand = each.demand
    ridge = ridge_tokens(each.gpus.model) if each.gpus else None
    if ridge is not None and each.speculative:
        pays = ridge / (1 + each.speculative)
        yield observed(f"{_PREFIX}_speculation_pays_until", pays, evidence, **labels)
        if demand is not None and demand.batch:
            ranks = each.layout.caches
            yield observed(f"{_PREFIX}_batch_each", demand.batch / ranks, evidence, **labels)
    took = step_time(each)
    if took is not None:
        how = "measured" if took.measured else "estimated"
        full = {**labels, "how": how}
        yield observed(f"{_PREFIX}_full_step_seconds", took.of(step.tokens), evidence, **full)
        yield observed(f"{_PREFIX}_quiet_step_seconds", took.quiet_s, evidence, **full)
    if demand is None:
        return
    if demand.itl_s is not None:
        yield observed(f"{_PREFIX}_wanted_itl_seconds", demand.itl_s, evidence, **labels)
    advice = advise(demand, step.sequences or 1, each.speculative, took)
    if advice is None:
        return
    yield observed(f"{_PREFIX}_advised_tokens", advice.budget, evidence, **labels)
    yield observed(f"{_PREFIX}_needed_tokens", advice.needed, evidence, **labels)
    yield observed(f"{_PREFIX}_prompt_per_decode", advice.ratio, evidence, **labels)
    if advice.most is not None:
        yield observed(f"{_PREFIX}_most_tokens", advice.most, evidence, **labels)
