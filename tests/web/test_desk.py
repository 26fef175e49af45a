"""The desk of a daemon: what the pipeline knows, as pages and API ask for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.notify.alerts import BESIDE, FIRED, URL
from tests.web.desk import CONFIG

from enginewatch.config import parse_config
from enginewatch.config.matchers import parse_matchers
from enginewatch.notify.inhibit import Inhibitor, InhibitRule
from enginewatch.notify.message import Receipt
from enginewatch.notify.mute import Mutes
from enginewatch.notify.pipeline import Pipeline, Plan
from enginewatch.notify.route import route_tree
from enginewatch.notify.silence import Silence, Silences
from enginewatch.web.desk import Delivery, PipelineDesk

NOW = 1_764_532_000_000
TREE = route_tree(parse_config(CONFIG, Path("e.yml")))
INTEGRATIONS = {
    "on-call": ("on-call/slack[0]", "on-call/pagerduty[0]"),
    "desk": ("desk/console[0]",),
}


def test_it_knows_what_the_pipeline_does() -> None:
    asked = parse_matchers('instance="gpu-1:8000"'), parse_matchers('instance="gpu-2:8000"')
    inhibitor = Inhibitor([InhibitRule(asked[0], asked[1], ("deployment",))])
    pipeline = Pipeline(Plan(TREE, INTEGRATIONS), Mutes(Silences(), inhibitor, {}))
    saved: list[bool] = []

    async def save() -> None:
        saved.append(bool(pipeline.changes()))

    desk = PipelineDesk(pipeline, lambda: (FIRED, BESIDE), lambda: URL, save)
    assert list(desk.deliveries(FIRED)) == []
    pipeline.take([FIRED, BESIDE], NOW)
    assert desk.muting(BESIDE, NOW).inhibited_by == (FIRED.labels,)
    assert desk.receivers() == ("on-call", "desk")

    (group,) = pipeline.groups()
    taken = pipeline.draft("on-call/slack[0]", group.key, NOW + 60_000)
    refused = pipeline.draft("on-call/pagerduty[0]", group.key, NOW + 60_000)
    assert taken is not None
    assert refused is not None
    pipeline.delivered(group.key, taken, Receipt(detail="posted"), NOW + 61_000)
    pipeline.failed(group.key, refused, NOW + 61_000, 5_000, maybe_delivered=False)
    assert list(desk.deliveries(FIRED)) == [
        Delivery("on-call/slack[0]", NOW + 61_000, "posted"),
        Delivery("on-call/pagerduty[0]", None, "", 1),
    ]

    silence = Silence(parse_matchers('deployment="chat"'), NOW, NOW + 60_000, "ana", "known")
    kept = desk.silences.put(silence, NOW)
    asyncio.run(desk.keep())
    assert desk.muting(FIRED, NOW).silenced_by == (kept.id,)
    assert saved == [True]
