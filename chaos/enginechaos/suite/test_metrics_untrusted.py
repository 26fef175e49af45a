"""metrics_untrusted: the page has lost what a hazard is judged by, and that is told."""

from __future__ import annotations

import pytest

from enginechaos.faults import RemovedMetrics, RenamedMetrics

pytestmark = pytest.mark.tiers("sim")


@pytest.fixture(scope="module")
def target(proxy):
    return proxy.target


@pytest.mark.hazard(
    "metrics_untrusted",
    certifies="a metric that an upgrade has renamed is a ticket that names it",
    but_not="a metric that keeps its name and changes its meaning",
)
def test_a_renamed_metric_is_a_ticket(induce, expect_page, proxy):
    names = {"vllm:kv_cache_usage_perc": "vllm:kv_cache_utilization"}
    # The rule gives a restarted engine two minutes to export everything again.
    with induce(RenamedMetrics(proxy, names)):
        story = expect_page("metrics_untrusted", severity="ticket", within=150)
        assert "kv_cache_usage_perc" in story.alert.labels.get("missing", "")


@pytest.mark.hazard("benign", certifies="a metric that no rule reads may go")
def test_a_metric_that_no_rule_reads_is_not_missed(induce, expect_silence, proxy):
    with induce(RemovedMetrics(proxy, ["vllm:e2e_request_latency_seconds"])):
        expect_silence(20)
