"""Does it fit: the memory sums of every launch, as samples and as sheets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.memory import (
    Estimate,
    Plan,
    Pool,
    cache_note,
    cache_size,
    estimate,
    pool,
)
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.served import Served, loads_draft, served
from enginewatch.preflight.shapes import parameters
from enginewatch.preflight.sheet import Line, Sheet

_SHORTEST = 1
_PREFIX = "enginewatch_preflight_memory"


class Sum(NamedTuple):
    """A launch's plan, what it comes to, and the room that is left on its GPU."""

    of: Served
    plan: Plan
    estimate: Estimate
    pool: Pool | None

    @property
    def largest(self) -> int | None:
        """How many sequences of the asked length fit."""
        if self.pool is None:
            return None
        return max(0, self.pool.room) // max(1, self.estimate.sequence)


def sums(facts: Facts) -> Iterator[Sum]:
    """Of every launch on every kind of GPU of which enough is known for a sum."""
    for each in served(facts):
        plan = _plan(each)
        if plan is None:
            continue
        found = estimate(plan)
        yield Sum(each, plan, found, _pool(each, found))


def _pool(each: Served, found: Estimate) -> Pool | None:
    if each.memory is None:
        return None
    cache = each.launch.number("kv_cache_bytes")
    size = int(cache) if cache else None
    return pool(found, each.launch.runtime, each.memory, _part(each), size)


def _plan(each: Served) -> Plan | None:
    if each.model is None or each.step is None or not each.is_told:
        return None
    launch, demand = each.launch, each.demand
    length = (demand.length if demand else None) or each.length or each.model.shape.length
    batch = math.ceil((demand.batch or 0) / each.layout.caches) if demand else 0
    tensor = launch.count("tensor_parallel")
    return Plan(
        model=each.model,
        draft=each.draft if each.draft and loads_draft(launch) else None,
        tensor=tensor,
        pipeline=launch.count("pipeline_parallel"),
        attention=each.layout.attention,
        experts=each.layout.experts,
        draft_tensor=launch.count("draft_tensor_parallel", tensor),
        cache_bytes=cache_size(each.cache),
        step_tokens=each.step.tokens or 1,
        sequences=batch or each.step.sequences or 1,
        length=max(_SHORTEST, length),
        speculative=each.speculative,
        graphs=launch.value("enforce_eager") is not True,
        sorts=each.sorts,
        offloaded=int((launch.number("cpu_offload_gb") or 0) * 2**30),
    )


def _part(each: Served) -> float | None:
    names = {"trtllm": "free_gpu_memory_fraction", "sglang": "mem_fraction_static"}
    value = each.launch.number(names.get(each.launch.runtime, "gpu_memory_utilization"))
    return value if value is not None and 0 < value <= 1 else None


def samples(facts: Facts) -> Iterator[Observed]:
    """Bytes on the fullest rank where the name does not say otherwise; each by launch and GPU."""
    for each in served(facts):
        labels = each.labels
        launch = each.launch
        evidence = Evidence(launch.where, 0, launch.command)
        for missing in each.missing:
            yield observed(f"{_PREFIX}_missing", 1, evidence, missing=missing, **labels)
        if not each.is_told:
            continue
        # A model without a command is spread over what GPUs there are, which nobody asked for.
        if facts.launches:
            needs = each.layout.gpus
            yield observed("enginewatch_preflight_launch_needs_gpus", needs, evidence, **labels)
        if each.model is not None:
            if facts.launches:
                heads = each.model.shape.heads % launch.count("tensor_parallel")
                yield observed("enginewatch_preflight_heads_left", heads, evidence, **labels)
            if each.draft is not None:
                ratio = parameters(each.draft.shape).total / parameters(each.model.shape).total
                yield observed(
                    "enginewatch_preflight_draft_parameters_ratio", ratio, evidence, **labels
                )
        limit = launch.number("max_model_len")
        if limit and each.model is not None and each.model.shape.length:
            over = limit / each.model.shape.length
            yield observed("enginewatch_preflight_length_ratio", over, evidence, **labels)
    for each_sum in sums(facts):
        yield from _of_sum(each_sum)


def _of_sum(each: Sum) -> Iterator[Observed]:
    of, found = each.of, each.estimate
    labels = of.labels
    evidence = Evidence(of.launch.where, 0, of.launch.command)
    yield observed(f"{_PREFIX}_fixed_bytes", found.total, evidence, **labels)
    yield observed(f"{_PREFIX}_token_bytes", found.token, evidence, **labels)
    part = _part(of)
    if part is not None:
        yield observed(f"{_PREFIX}_share", part, evidence, **labels)
    yield observed(f"{_PREFIX}_speculative_tokens", of.speculative, evidence, **labels)
    if each.pool is None or of.memory is None:
        return
    room = each.pool.room
    tokens = max(0, room) // max(1, found.token)
    yield observed(f"{_PREFIX}_gpu_bytes", of.memory, evidence, **labels)
    yield observed(f"{_PREFIX}_limit_bytes", each.pool.limit, evidence, **labels)
    yield observed(f"{_PREFIX}_room_bytes", room, evidence, **labels)
    yield observed(f"{_PREFIX}_slack_bytes", each.pool.slack, evidence, **labels)
    yield observed(f"{_PREFIX}_room_tokens", tokens, evidence, **labels)
    yield observed(
        f"{_PREFIX}_fits_sequences",
        (each.largest or 0) * of.layout.caches,
        length=each.plan.length,
        **labels,
    )
    if of.launch.runtime == "vllm" and of.length:
        longest = (
            of.length * found.token * (found.sequence / max(1, found.token * each.plan.length))
        )
        yield observed(f"{_PREFIX}_longest_bytes", longest, evidence, **labels)
    if of.demand is not None and of.demand.batch is not None:
        yield observed(f"{_PREFIX}_asked_sequences", of.demand.batch, evidence, **labels)
    if of.step is not None and of.step.sequences_given:
        configured = of.step.sequences * of.layout.caches
        yield observed(f"{_PREFIX}_max_num_seqs", configured, evidence, **labels)
    if found.draft_token or found.draft_weights:
        yield observed(f"{_PREFIX}_draft_lost_ratio", _lost(each), evidence, **labels)


def _lost(each: Sum) -> float:
    """The share of the cache's tokens that the draft takes: its weights, and its own cache."""
    if each.pool is None:
        return 0.0
    without = (each.pool.room + each.estimate.draft_weights) / max(
        1, each.estimate.token - each.estimate.draft_token
    )
    have = max(0, each.pool.room) / max(1, each.estimate.token)
    return 1 - have / without if without > 0 else 1.0


def sheets(facts: Facts) -> Iterator[Sheet]:
    """The sum of each launch, with the cache of the batch that is asked for."""
    for each in sums(facts):
        of, plan, found = each.of, each.plan, each.estimate
        gpu = f" on {of.gpus.model}" if of.gpus else ""
        asked = of.demand is not None and of.demand.batch is not None
        held = plan.sequences if asked else (each.largest if each.largest is not None else 1)
        note = f"{held} x {plan.length} tokens of {found.token} B: {cache_note(plan)}"
        lines = (*found.fixed, Line("KV cache", held * found.sequence, note))
        limit = None
        if each.pool is not None and of.memory is not None:
            share = f"{each.pool.limit / of.memory:.0%} of {of.memory / 2**30:.1f} GiB"
            limit = Line(f"{of.launch.runtime} may use", each.pool.limit, share)
        yield Sheet(
            f"{of.name}{gpu}, one of {of.layout.gpus} GPUs ({of.launch.where})",
            lines,
            limit,
            tuple(_remarks(each)),
        )


def _remarks(each: Sum) -> Iterator[str]:
    plan = each.plan
    if each.pool is None:
        yield "Which GPU is not known: declare it with --gpus 8xH200."
        return
    tokens = max(0, each.pool.room) // max(1, each.estimate.token)
    caches = each.of.layout.caches
    ranks = f" in each of {caches} caches" if caches > 1 else ""
    yield f"{each.largest} sequences of {plan.length} tokens fit{ranks}, {tokens} tokens in all."
    if each.estimate.draft_weights or each.estimate.draft_token:
        weights = each.estimate.draft_weights / 2**30
        yield (
            f"The draft takes {_lost(each):.1%} of the cache: {weights:.2f} GiB of weights, and "
            f"{each.estimate.draft_token} of {each.estimate.token} B a token."
        )
    outside = each.estimate.outside
    yield f"Beside this: {outside.what} {outside.amount / 2**30:.2f} GiB, {outside.note}."
