"""quality_collapse: a relaunch in a damaged numeric format, which only the answers show."""

from __future__ import annotations

import subprocess
import sys

import pytest

from enginechaos import stage
from enginechaos.errors import TargetError
from enginechaos.faults import DamagedFormat

# A real server is away for tens of seconds when it is launched anew. One that is back between two
# scrapes is taken, rightly, for two engines behind one address (EngineCountersReset).
pytestmark = [pytest.mark.tiers("sim"), pytest.mark.engine(startup_seconds=6)]

ANSWERS = 'enginewatch_canary_answers_total{family="overall"}'
HARMLESS = "mxfp4"
"""0.3 of 100 answers wrong, of products 0.9: decision.yml tolerates 2 of a baseline like this."""
INTERVAL, BATCH = 1, 6
"""Seconds between batches, and their answers: 64 take 11 s, in which rules are evaluated twice. At
the default of 16 a minute, the test would take a quarter of an hour."""


@pytest.fixture(scope="module")
def canary(chaos_run, target):
    """The watchdog's section of that name, with a baseline of the sound engine, which then goes on
    in a format that is nearly as good: before the watchdog comes, because it counts starts."""
    if chaos_run.dry_run:
        return {}
    file = chaos_run.folder / "quality-baseline.jsonl"
    which = ["--count", "60", "--longest", "400", "--seed", str(chaos_run.seed)]
    asked = ["--url", target.url, "-o", str(file), *which]
    made = subprocess.run(
        [sys.executable, "-m", "enginewatch", "canary", "baseline", *asked],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if made.returncode:
        raise TargetError(f"no baseline: {(made.stderr or made.stdout).strip()}", where=target.url)
    target.relaunch(format=HARMLESS)
    return {
        "baseline": str(file),
        "interval": f"{INTERVAL}s",
        "batch": BATCH,
        # By right and wrong alone: probabilities show every format within 100 answers, and one that
        # is as good as this module's as a ticket.
        "logprobs": "off",
        # So many answers are more than a real engine is asked for.
        "tokens_per_hour": 50_000_000,
    }


@pytest.fixture(scope="module")
def watchdog(chaos_run, target, receivers, canary):
    with stage.watchdog_of(chaos_run, target, receivers, "quality", {"canary": canary}) as made:
        yield made


class HarmlessFormat(DamagedFormat):
    """The engine as it is: in four bits since before the watchdog came."""

    def inject(self, target):
        pass


@pytest.mark.hazard(
    "benign",
    certifies="a four-bit format that costs a third of a point pages nobody in 100 canary answers",
    but_not="that it never would: a loss beyond what is tolerated is found in the end",
)
def test_a_format_that_hardly_damages_is_silent(induce, expect_silence, baseline, watchdog):
    baseline(f"{ANSWERS} >= 32")
    with induce(HarmlessFormat(HARMLESS, sign="*", least=1)) as induction:
        expect_silence(45)
        before = watchdog.value(f"{ANSWERS} @ {induction.injected_at:.3f}")
        assert watchdog.value(ANSWERS) - before >= 100


@pytest.mark.hazard(
    "quality_collapse",
    certifies="a third of the answers wrong, at the same speed, is paged within 64 canary answers",
    but_not="losses of a few points, which take hundreds of answers, and real four-bit kernels",
)
def test_a_damaged_format_is_paged_by_its_answers_and_resolves(
    induce, expect_page, baseline, watchdog
):
    baseline(f"{ANSWERS} >= 32")
    with induce(DamagedFormat()) as induction:
        # Over at 1000 to 1 that half the drop is gone, in each family that alarmed: 100 to 250
        # answers, 6 a second, by which tasks are drawn. The engine's own start comes on top.
        story = expect_page("quality_collapse")
        before = watchdog.value(f"{ANSWERS} @ {induction.began_at:.3f}")
        after = watchdog.value(f"{ANSWERS} @ {story.firing_at:.3f}")
        assert None not in (before, after), "the canary's counter is not there"
        given = after - before
        induction.incident.tell("note", f"{given:g} canary answers from injection to page")
        assert 0 < given <= 64
