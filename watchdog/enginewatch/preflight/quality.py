"""Evaluation results as samples: how much worse than the baseline, and how sure that is.

What counts as too much is in `rules/preflight/quality.yml`. Statistics and readers are the
canary's: tasks are compared one by one where both sides have them, averages otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

from enginewatch.canary.evaluation import Comparison, Evaluation, compare
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.memory import cache_size
from enginewatch.preflight.models import checkpoint_of
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.readers.checkpoint import Checkpoint
from enginewatch.preflight.served import served

CONFIDENCES: Final = (0.95, 0.99)
"""Of the intervals that rules can choose from, by their label `confidence`."""
_PREFIX: Final = "enginewatch_preflight_evaluation_"


def samples(facts: Facts) -> Iterator[Observed]:
    """`enginewatch_preflight_evaluation_…`, by family of tasks: `drop` of the pass rate (0.05 is
    five points, positive is worse), `drop_low` and `drop_high` (the ends of its interval),
    `p_worse`, `pass_rate` of a side, `tasks`; `info` says which sides were given."""
    for side, given in (("candidate", facts.evaluations), ("baseline", facts.baselines)):
        for each in given:
            yield observed(f"{_PREFIX}info", 1, _about(each, side), side=side)
    yield from _formats(facts)
    for checkpoint in facts.checkpoints:
        yield from _calibration(checkpoint)
    if not (facts.evaluations and facts.baselines):
        return
    baseline, candidate = _whole(facts.baselines), _whole(facts.evaluations)
    same = {each.source for each in facts.evaluations} & {each.source for each in facts.baselines}
    for source in sorted(same):
        yield observed(f"{_PREFIX}is_its_own_baseline", 1, Evidence(source, 0, "given twice"))
    comparisons = compare(baseline, candidate)
    yield observed(f"{_PREFIX}compared_families", len(comparisons))
    for comparison in comparisons:
        yield from _compared(comparison, candidate.source)


def _formats(facts: Facts) -> Iterator[Observed]:
    """`enginewatch_preflight_weight_bytes` and `…_cache_bytes`: of one element, by model and
    format, of what the commands start. Formats that a file or a flag writes down are those of
    the architecture check; here is what a model's name alone tells."""
    for launch in facts.launches:
        cache = launch.text("kv_cache_dtype")
        if cache:
            place = Evidence(launch.where_of("kv_cache_dtype"), 0, launch.command)
            labels = {"launch": launch.where, "format": cache}
            yield observed("enginewatch_preflight_cache_bytes", cache_size(cache), place, **labels)
    for each in served(facts):
        written = each.launch.text("quantization") or checkpoint_of(each.name, "model", facts)
        if each.model is not None and not written:
            place = Evidence(each.launch.where, 0, each.launch.command)
            labels = {"model": each.name, "format": each.model.format.name}
            size = each.model.format.size
            yield observed("enginewatch_preflight_weight_bytes", size, place, **labels)


def _calibration(each: Checkpoint) -> Iterator[Observed]:
    """`enginewatch_preflight_calibration_scales`: how many scales a calibration run has left in
    the weights, by the ending of their names; `…_calibration_promised`: the configuration says
    that activations have scales of their own, fixed before serving."""
    if each.quantization is None or each.weights is None:
        return
    labels = {"checkpoint": each.where, "format": each.quantization.written}
    found = ", ".join(f"{count} {ending}" for ending, count in each.calibrated.items())
    place = Evidence(each.quantization.where, 0, found or "no scale of activations or cache")
    scales = sum(each.calibrated.values())
    yield observed("enginewatch_preflight_calibration_scales", scales, place, **labels)
    if each.quantization.static_activations:
        yield observed("enginewatch_preflight_calibration_promised", 1, place, **labels)


def _whole(parts: Sequence[Evaluation]) -> Evaluation:
    """All evaluations of one side together; of a family that two have, the later counts."""
    return reduce(
        lambda one, more: Evaluation(
            f"{one.source}, {more.source}",
            {**one.rates, **more.rates},
            (*(o for o in one.outcomes if o.family not in more.rates), *more.outcomes),
        ),
        parts,
    )


def _about(evaluation: Evaluation, side: str) -> Evidence:
    told = ", ".join(f"{name} {value}" for name, value in sorted(evaluation.about.items()))
    rates = ", ".join(
        f"{family} {rate.rate:.4g} of {rate.tasks}"
        for family, rate in sorted(evaluation.rates.items())
    )
    return Evidence(evaluation.source, 0, f"{side}: {rates}{'; ' if told else ''}{told}")


def _compared(comparison: Comparison, source: str) -> Iterator[Observed]:
    found = comparison.difference
    labels = {
        "family": comparison.family,
        "pairing": "paired" if comparison.paired is not None else "averages",
    }
    evidence = Evidence(source, 0, _told(comparison))

    def sample(name: str, value: float, **more: str) -> Observed:
        return observed(f"{_PREFIX}{name}", value, evidence, **labels, **more)

    yield sample("drop", found.drop)
    yield sample("p_worse", found.p_worse())
    for confidence in CONFIDENCES:
        interval = found.interval(confidence)
        yield sample("drop_low", interval.low, confidence=f"{confidence:g}")
        yield sample("drop_high", interval.high, confidence=f"{confidence:g}")
    paired = comparison.paired
    tasks = paired.tasks if paired else min(comparison.baseline.tasks, comparison.candidate.tasks)
    yield sample("tasks", tasks)
    yield sample("pass_rate", comparison.baseline.rate, side="baseline")
    yield sample("pass_rate", comparison.candidate.rate, side="candidate")


def _told(comparison: Comparison) -> str:
    before, after = comparison.baseline, comparison.candidate
    low, high = comparison.difference.interval(CONFIDENCES[0])
    text = (
        f"{comparison.family}: {before.rate:.2%} of {before.tasks} before,"
        f" {after.rate:.2%} of {after.tasks} now; change {-high:+.2%} to {-low:+.2%}"
        f" ({CONFIDENCES[0]:.0%} interval)"
    )
    paired = comparison.paired
    if paired is None:
        return f"{text}, averages only"
    return (
        f"{text}; {paired.lost} tasks lost and {paired.gained} gained,"
        f" p {comparison.difference.p_worse():.2g}"
    )
