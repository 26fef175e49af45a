"""gpu_fault: the driver hangs, and takes no collector of the watchdog's along but its own."""

from __future__ import annotations

import pytest

from enginechaos.faults import HungDriver


@pytest.mark.tiers("sim")
@pytest.mark.hazard(
    "gpu_fault",
    certifies="a hang inside NVML is one page, while the engine is watched on",
    but_not="a reader that the kernel does not let go of, and what the hang does to an engine",
)
def test_a_hung_driver_is_one_page_and_resolves(induce, expect_page, watchdog, target, baseline):
    # A reader that has never answered has a minute to start.
    baseline("enginewatch_nvml_available == 1")
    with induce(HungDriver()):
        expect_page("gpu_fault")
        ours = [t for t in watchdog.targets() if t["labels"].get("instance") == target.instance]
        assert [t["health"] for t in ours] == ["up"]
