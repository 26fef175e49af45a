"""A link between two ranks becomes slow: by a little, which nobody is to hear of, or by far."""

from __future__ import annotations

import pytest

from enginechaos import stage
from enginechaos.faults import RankLink, SlowLink
from enginechaos.faults.network import missing

pytestmark = pytest.mark.tiers("sim")


@pytest.fixture(scope="module")
def link(chaos_run):
    made = RankLink()
    if not chaos_run.dry_run:
        why = missing()
        if why:
            pytest.skip(why)
        owed = chaos_run.undo.promise("a link between ranks", made.undo())
        made.add()
    yield made
    if not chaos_run.dry_run:
        list(chaos_run.undo.settle(owed))


@pytest.fixture(scope="module")
def target(chaos_run, engine, link):
    settings = {"tensor_parallel": 2, "ranks": link.ranks()}
    return stage.target_of(chaos_run, engine, "slow-link", settings)


@pytest.mark.hazard("benign", certifies="a link that is slower by 20 ms pages nobody")
def test_a_link_slower_by_a_little_is_silent(induce, expect_silence, link):
    with induce(SlowLink(link, delay=0.02)):
        expect_silence(30)


@pytest.mark.hazard(
    "stuck_engine",
    certifies="ranks that wait for packets of seconds are paged, though every process runs",
    but_not="NCCL's own timeouts and retries, InfiniBand",
)
def test_a_link_slower_by_far_is_paged_and_resolves(induce, expect_page, link):
    with induce(SlowLink(link, delay=10.0)):
        expect_page("stuck_engine", within=30)
