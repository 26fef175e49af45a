"""A receiver of pages is in trouble: it refuses, or answers too late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from enginechaos.actions import Action, EndsWithRun
from enginechaos.errors import ChaosError
from enginechaos.faults.base import Evidence, Fault
from enginechaos.receivers import Receivers, Trouble
from enginechaos.receivers.provider import Provider
from enginechaos.target import Target


@dataclass
class ReceiverDown(Fault):
    """One of the suite's own receivers, by its name, fails as `trouble` says until `mend`.

    The evidence is a request of our own that the receiver does not take.
    """

    receivers: Receivers
    which: str
    trouble: Trouble = field(default_factory=Trouble)

    def blast_radius(self, target: Target) -> str:
        return f"the suite's own {self.which} takes no page; nothing of {target.deployment}"

    def undo(self, target: Target) -> Sequence[Action]:
        return [EndsWithRun(f"the trouble of the suite's own {self.which}")]

    def inject(self, target: Target) -> None:
        self.provider.trouble = self.trouble

    def verify(self, target: Target) -> Evidence:
        path = next(iter(self.provider.routes())).path
        patience = max(self.trouble.seconds / 4, 0.5) if self.trouble.seconds else 5.0
        try:
            answer = httpx.post(
                f"{self.receivers.url}{path}", json={}, timeout=patience, trust_env=False
            )
        except httpx.TimeoutException:
            late = self.trouble.seconds > 0
            return Evidence(late, f"{self.which} has not answered within {patience:g} s")
        wrong = answer.status_code == self.trouble.status and not self.trouble.seconds
        return Evidence(wrong, f"{self.which} answers {answer.status_code}")

    def retract(self, target: Target) -> None:
        self.mend()

    def mend(self) -> None:
        """It takes pages again; may be called twice."""
        self.provider.trouble = None

    @property
    def provider(self) -> Provider:
        found: Provider | None = getattr(self.receivers, self.which, None)
        if not isinstance(found, Provider):
            raise ChaosError(f"no receiver is called {self.which!r}")
        return found
