"""One fault, from steady state to steady state: the life of a test, in its only order.

steady, undo written, injected, verified, then what the test expects, undone, resolved,
and steady again. Whatever goes wrong on the way, what was injected is undone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from enginechaos import expectations
from enginechaos.budgets import Budget
from enginechaos.errors import (
    Inconclusive,
    NotDelivered,
    NotDetected,
    Refused,
    Unexpected,
    WatchdogError,
)
from enginechaos.expectations import Expected
from enginechaos.faults.base import Evidence, Fault
from enginechaos.interrupts import uninterrupted
from enginechaos.journal import Incident
from enginechaos.observer import Story
from enginechaos.receivers import Delivery
from enginechaos.scene import Scene
from enginechaos.undo import Owed

SIGNAL_STEP = 1.0
"""Seconds between the points of a report's picture."""
DEAF = 5.0
"""Seconds for which a watchdog may not answer, before its silence counts for nothing."""
BEFORE = 20.0
"""Seconds of quiet that the picture shows before the fault."""


class Induction:
    """A context: inside it, the fault is there. Raises ChaosError and AssertionErrors."""

    def __init__(self, scene: Scene, fault: Fault):
        if not isinstance(fault, Fault):
            raise Refused(
                f"{type(fault).__name__} is no Fault: it can't be verified, so it is not injected",
                hint="derive it from enginechaos.faults.Fault, with undo, inject and verify",
            )
        self.scene = scene
        self.fault = fault
        self.incident = Incident(fault.name)
        self.began_at = 0.0
        self.injected_at = 0.0
        self.undone_at: float | None = None
        self._standing: frozenset[object] = frozenset()
        self._expected: list[tuple[Expected, Budget]] = []
        self._warned: dict[str, str] = {}
        self._owed: Sequence[Owed] = ()
        self._undoing = threading.Lock()
        self._settled = False

    def __enter__(self) -> Self:
        scene, fault = self.scene, self.fault
        scene.record.incidents.append(self.incident)
        scene.settle_down("before the fault")
        self._standing = scene.standing()
        self.incident.tell("steady", str(scene.load.figures()))
        actions = fault.undo(scene.target)
        self._owed = scene.undo.promise(fault.name, actions)
        self.incident.tell("undo_written", f"{len(self._owed)} actions in {scene.undo.path.name}")
        try:
            scene.check()
            self.began_at = time.time()
            scene.observer.watch(self._trip)
            fault.inject(scene.target)
            self.injected_at = self.incident.tell("injected", fault.name)
            self._verify()
        except BaseException:
            self.take_back()
            self._sum_up()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self.take_back()
        try:
            if kind is None:
                self.scene.check()
                self._see_it_over()
                self.scene.settle_down("after the undo")
                self.incident.tell("steady_again", str(self.scene.load.figures()))
        finally:
            self._sum_up()

    def take_back(self) -> None:
        """Undo, once; safe to call from the observer's thread and after it was done."""
        with self._undoing, uninterrupted():
            if self._settled:
                return
            self.scene.observer.unwatch(self._trip)
            try:
                self.fault.retract(self.scene.target)
            finally:
                said = [each for _, each in self.scene.undo.settle(self._owed)]
            self._settled = True
            self.undone_at = self.incident.tell("undone", "; ".join(said))

    def expect_page(
        self,
        verdict: str,
        *,
        severity: str = "page",
        within: float | None = None,
        deliver: float | None = None,
        resolve: float | None = None,
        also: Sequence[str] = (),
    ) -> Story:
        """The alert from pending to firing to delivered, within budget, at every receiver."""
        budgets = self.scene.budgets
        budget = budgets.of(verdict, detect=within, deliver=deliver, resolve=resolve)
        expected = Expected(verdict, severity, frozenset(also), self._warned.get(verdict, ""))
        self.incident.verdict = self.incident.verdict or verdict
        self.incident.budget = self.incident.budget or budget.as_json()
        # A page that comes as a ticket is told of as that, but for one that follows a warning.
        story = self._detect(verdict, severity if verdict in self._warned else None, budget)
        self._expected.append((expected, budget))
        self._delivered(expected, budget, story)
        return story

    def expect_warning(
        self, verdict: str, *, severity: str = "ticket", within: float | None = None
    ) -> Story:
        """An alert of lesser severity that goes before the page, within the budget to detect.

        Expect the page after it: both are one incident, and end as one.
        """
        budget = self.scene.budgets.of(verdict, detect=within)
        story = self._detect(verdict, severity, budget)
        self._warned[verdict] = severity
        return story

    def expect_silence(self, seconds: float) -> None:
        """No page fires and no receiver hears of anything for so long. Raises Unexpected.

        The silence of a watchdog that does not answer proves nothing. Raises WatchdogError.
        """
        deaf_since: float | None = None

        def over() -> bool:
            nonlocal deaf_since
            deaf = self.scene.observer.failure is not None
            deaf_since = (deaf_since or time.time()) if deaf else None
            too_long = deaf_since is not None and time.time() - deaf_since > DEAF
            return too_long or bool(self._noise())

        self.scene.wait(over, seconds)
        noise = self._noise()
        if noise:
            raise Unexpected(f"expected silence, and heard: {'; '.join(noise)}")
        if deaf_since is not None:
            raise WatchdogError(self.scene.observer.failure or "the watchdog did not answer")
        self.incident.tell("note", f"silent for {seconds:g} s")

    def _verify(self) -> None:
        found = Evidence(False, "it was never looked for")

        def verified() -> bool:
            nonlocal found
            found = self.fault.verify(self.scene.target)
            return found.found

        ok = self.scene.wait(verified, self.fault.verify_within)
        self.incident.evidence = found.what
        if not ok:
            raise Inconclusive(
                f"{self.fault.name}: no evidence within {self.fault.verify_within:g} s that it "
                f"took effect: {found.what}"
            )
        self.incident.tell("verified", found.what)

    def _detect(self, verdict: str, severity: str | None, budget: Budget) -> Story:
        def fired() -> Story | None:
            stories = [
                s
                for s in self._stories()
                if s.alert.verdict == verdict and severity in (None, s.alert.labels.get("severity"))
            ]
            return min(
                (s for s in stories if s.firing_at is not None),
                key=lambda s: s.firing_at or 0.0,
                default=None,
            )

        left = self.injected_at + budget.detect - time.time()
        story = self.scene.wait(fired, max(left, 0.0))
        if story is None or story.firing_at is None:
            raise NotDetected(
                f"no {verdict} alert fired within {budget.detect:g} s of the injection; "
                f"{self._seen()}"
            )
        self.incident.tell("pending", story.alert.name, story.pending_at)
        self.incident.tell("firing", story.alert.name, story.firing_at)
        took = max(story.firing_at - self.injected_at, 0.0)
        self.incident.figures.setdefault("detect", took)
        if took > budget.detect:
            raise NotDetected(f"{verdict} fired after {took:.1f} s, budget {budget.detect:g} s")
        return story

    def _delivered(self, expected: Expected, budget: Budget, story: Story) -> None:
        names = self.scene.receivers.names
        fired = story.firing_at or 0.0

        def heard() -> list[Delivery] | None:
            firsts = [expectations.first_page(expected, self._deliveries(), n) for n in names]
            found = [first for first in firsts if first is not None]
            return found if len(found) == len(names) else None

        pages = self.scene.wait(heard, max(fired + budget.deliver - time.time(), 0.0) + 1.0)
        if pages is None:
            told = [
                n for n in names if expectations.first_page(expected, self._deliveries(), n) is None
            ]
            refused = self.scene.receivers.inbox.refused(self.began_at)
            raise NotDelivered(
                f"{story.alert.name} fired and {', '.join(told)} did not hear of it within "
                f"{budget.deliver:g} s" + (f"; refused: {'; '.join(refused)}" if refused else "")
            )
        last = max(page.at for page in pages)
        self.incident.tell("delivered", ", ".join(p.receiver for p in pages), last)
        self.incident.figures.setdefault("deliver", max(last - fired, 0.0))
        if last - fired > budget.deliver:
            raise NotDelivered(
                f"delivered {last - fired:.1f} s after firing, budget {budget.deliver:g} s"
            )

    def _see_it_over(self) -> None:
        for expected, budget in self._expected:
            self._resolved(expected, budget)
        heard, names = self._deliveries(), self.scene.receivers.names
        wrong = [f for e, _ in self._expected for f in expectations.faults(e, heard, names)]
        wrong += self.scene.receivers.inbox.refused(self.began_at)
        if wrong:
            raise NotDelivered("; ".join(wrong))
        noise = self._unexpected()
        if noise:
            raise Unexpected("; ".join(noise))

    def _resolved(self, expected: Expected, budget: Budget) -> None:
        undone = self.undone_at or time.time()

        def over() -> bool:
            still = any(s.firing for s in self._stories() if s.alert.verdict == expected.verdict)
            heard = self._deliveries()
            names = self.scene.receivers.names
            return not still and all(expectations.resolve_of(expected, heard, n) for n in names)

        left = undone + budget.resolve - time.time()
        if not self.scene.wait(over, max(left, 0.0)):
            raise NotDelivered(
                f"{expected.verdict} was not over at every receiver within {budget.resolve:g} s "
                f"of the undo; {self._seen()}"
            )
        stories = [s for s in self._stories() if s.alert.verdict == expected.verdict]
        gone = [s.gone_at for s in stories if s.firing_at is not None and s.gone_at is not None]
        if gone:
            self.incident.tell("resolved", expected.verdict, max(gone))
        ends = [d.at for d in self._deliveries() if d.verdict == expected.verdict and not d.firing]
        last = max(ends)
        self.incident.tell("resolve_delivered", expected.verdict, last)
        self.incident.figures.setdefault("resolve", max(last - undone, 0.0))

    def _trip(self) -> str | None:
        """Asked by the observer: the reason why the fault may not go on."""
        reason = self._reason_to_stop()
        if reason is not None and self.scene.aborted is None:
            self.scene.aborted = reason
            self.incident.tell("aborted", reason)
            self.take_back()
        return reason

    def _reason_to_stop(self) -> str | None:
        limits = self.scene.target.limits
        lasted = 0.0 if self.fault.harmless else time.time() - self.began_at
        if lasted > limits.fault_seconds:
            return f"the fault lasted longer than its limit of {limits.fault_seconds:g} s"
        if time.time() > self.scene.run_ends_at:
            return "the run has reached its limit of time"
        for guard in self.scene.target.guards:
            try:
                value = self.scene.watchdog.value(guard.query)
            except WatchdogError:
                continue  # a fault may be that the watchdog is down
            if value is not None and guard.broken_by(value):
                return f"a guarded signal left its bounds: {guard} (it is {value:g})"
        return None

    def _stories(self) -> list[Story]:
        return [
            s
            for s in self.scene.observer.stories(self.began_at)
            if s.alert.key not in self._standing
        ]

    def _deliveries(self) -> list[Delivery]:
        return self.scene.receivers.inbox.taken(self.began_at)

    def _unexpected(self) -> list[str]:
        expected = [each for each, _ in self._expected]
        return expectations.unexpected(expected, self._deliveries(), self.scene.target.deployment)

    def _noise(self) -> list[str]:
        pages = [s for s in self._stories() if s.alert.labels.get("severity") == "page"]
        firing = [f"{s.alert.name} fires" for s in pages if s.firing_at is not None]
        return firing + self._unexpected()

    def _seen(self) -> str:
        if self.scene.observer.failure is not None:
            return self.scene.observer.failure
        seen = sorted({f"{s.alert.name} {s.alert.state}" for s in self._stories()})
        return f"the watchdog showed {', '.join(seen) or 'no alert'}"

    def _sum_up(self) -> None:
        end = time.time()
        heard = [d for d in self._deliveries() if d.at <= end]
        self.incident.deliveries = [d.as_json() for d in heard]
        start = (self.began_at or end) - BEFORE
        points = self.scene.load.ledger.curve(start, end, SIGNAL_STEP)
        self.incident.signal = {"name": "tokens/s of the quiet clients", "points": points}


class Inductions:
    """Those of one test, one after the other."""

    def __init__(self, scene: Scene):
        self._scene = scene
        self._last: Induction | None = None

    def begin(self, fault: Fault) -> Induction:
        self._last = Induction(self._scene, fault)
        return self._last

    def current(self) -> Induction:
        """Raises Refused where none is going on."""
        if self._last is None:
            raise Refused("there is no fault: write it in the block of `with induce(...)`")
        return self._last
