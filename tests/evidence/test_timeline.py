"""Series of any length are judged by the shipped rules and those of the diagnosis."""

from __future__ import annotations

from collections.abc import Iterator

from tests.evidence.knowledge import YEAR, judge, knowledge

from enginewatch.evidence.gather import Gathering, Input
from enginewatch.evidence.timeline import MOST_TIMES, Timeline, judge_timeline
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Labels, Sample

OWN = Labels(instance="a", job="page", deployment="a", model_name="m", engine="0")


def page(seconds: int, **values: float) -> tuple[int, list[Sample]]:
    names = {name.replace("vllm_", "vllm:"): value for name, value in values.items()}
    samples = [Sample(OWN.with_(__name__=name), value) for name, value in names.items()]
    return seconds * 1000, samples


def fired(pages: list[tuple[int, list[Sample]]]) -> dict[str, int]:
    timeline = Timeline("a")
    for at, samples in pages:
        timeline.add("page", at, samples, Evidence("a", at, "page"))
    judgement = judge_timeline(timeline, knowledge().rules)
    assert judgement.failures == ()
    return {alert.name: at for alert, at in judgement.alerts}


def test_nothing_is_judged_to_be_nothing() -> None:
    assert fired([]) == {}


def dense_pages() -> Iterator[str]:
    """Scrapes five seconds apart, of an engine that stops after half a minute."""
    labels = 'model_name="m",engine="0"'
    for n in range(24):
        moving = min(n, 6)
        yield f"# SCRAPE t={n * 5}"
        yield f"vllm:num_requests_running{{{labels}}} 4"
        yield f"vllm:kv_cache_usage_perc{{{labels}}} {0.1 + 0.01 * moving}"
        yield f"vllm:generation_tokens_total{{{labels}}} {100 * moving}"
        yield f"vllm:prompt_tokens_total{{{labels}}} 50"
        yield f'vllm:request_success_total{{{labels},finished_reason="stop"}} 3'


def test_a_dense_series_is_judged_by_the_daemon_s_own_rules() -> None:
    gathering = Gathering(knowledge(), {}, YEAR)
    gathering.read(Input("a", "\n".join(dense_pages()).encode().split(b"\n")))
    (pages, _) = gathering.timelines()
    alerts = {alert.name: at for alert, at in judge_timeline(pages, knowledge().rules).alerts}
    assert 60_000 <= alerts["EngineStuck"] <= 90_000


def test_times_before_the_epoch_are_times() -> None:
    pages = [
        page(-15, vllm_corrupted_requests_total=0),
        page(0, vllm_corrupted_requests_total=2),
    ]
    assert fired(pages)["PageCorruptedRequests"] == 0


def lines(count: int) -> Iterator[str]:
    for n in range(count):
        yield (
            f"INFO 01-{1 + n // 8640:02d} {n // 360 % 24:02d}:{n // 6 % 60:02d}:{n % 6}0"
            " [loggers.py:1] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation"
            f" throughput: {900 + n % 50}.0 tokens/s, Running: {20 + n % 5} reqs, Waiting: 0 reqs,"
            f" GPU KV cache usage: {30 + n % 7}.0%, Prefix cache hit rate: 0.0%"
        )


def test_a_long_log_is_judged_at_a_bounded_number_of_times() -> None:
    found = judge("\n".join(lines(MOST_TIMES * 4)))
    assert (found.verdict, found.confidence) == ("benign", "definite")
    assert found.derived["engine_progressing"] is True
