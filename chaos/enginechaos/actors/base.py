"""The protocol by which faults touch the machine that an engine runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from enginechaos.processes import Process


class Done(NamedTuple):
    """What a command came to."""

    code: int
    output: str
    errors: str


class Actor(Protocol):
    """A place where processes can be seen and signalled, and commands run.

    All raise TargetError when the place can't be reached. Everything waits for seconds
    at most, so that an abort is never stuck behind an actor.
    """

    @property
    def place(self) -> str:
        """Where it acts, for people: `this machine`, `pod chat-0 of llm`."""

    def spec(self) -> Mapping[str, Any]:
        """What `actor_of` makes this actor anew from, after a crash."""

    def run(self, argv: Sequence[str], within: float = 20.0) -> Done:
        """Run a command there and wait for it."""

    def processes(self) -> Sequence[Process]:
        """Those that are seen from there."""

    def state(self, process: Process) -> str:
        """The letter of its state (`T` stopped, `Z` dead); empty when it is gone."""

    def signal(self, process: Process, name: str) -> bool:
        """Send `STOP`, `CONT`, `TERM` or `KILL`; False when this very process is gone."""
