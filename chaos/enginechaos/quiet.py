"""A long silence, told of while it lasts: the control of two minutes, or of an hour."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from enginechaos.induction import Induction
from enginechaos.scene import Scene

STEP: Final = 60.0
"""Seconds between two lines of progress."""


def stay_quiet(
    induction: Induction, scene: Scene, seconds: float, tell: Callable[[str], None]
) -> None:
    """No page fires and no receiver hears of anything for `seconds`. Raises Unexpected."""
    began = time.time()
    while (left := began + seconds - time.time()) > 0:
        step = min(STEP, left)
        induction.expect_silence(step)
        tell(f"silent for {time.time() - began:.0f} of {seconds:.0f} s: {scene.load.figures(step)}")
    verdict = f"no alert in {seconds:g} s; {_nearly(induction, scene)}"
    induction.incident.tell("note", verdict)
    tell(verdict)


def _nearly(induction: Induction, scene: Scene) -> str:
    """What came as near as pending: a rule that is often there will fire one day."""
    names = [story.alert.name for story in scene.observer.stories(induction.began_at)]
    counted = (f"{name} {names.count(name)} times" for name in sorted(set(names)))
    return f"pending: {', '.join(counted) or 'none'}"
