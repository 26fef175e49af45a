"""An engine is launched anew with a draft model that is too large, and drafts too many tokens: it
starts, serves, and has next to nothing left for its largest batch. Of simulated GPUs only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from enginechaos.actions import Action
from enginechaos.errors import TargetError
from enginechaos.faults import looks
from enginechaos.faults.base import Evidence
from enginechaos.faults.relaunch import EndsInRelaunch
from enginechaos.load import Load, Mix
from enginechaos.sim.memory import GIB
from enginechaos.target import Target


@dataclass
class OversizedDraft(EndsInRelaunch):
    """A relaunch with a draft model of `weights_gib` that the sizing of the KV pool does not know
    of (vllm#9995, vllm#14067). The engine serves on, until `fill_batch`.

    A step that verifies holds `batch * (1 + tokens)` rows of logits, several times over. The
    evidence is what the GPU says is free, less than those rows need, and drafts on the engine's own
    page; and of the end, `crashed`.
    """

    load: Load
    weights_gib: float = 10.0
    kv_kib_per_token: float = 128.0
    """As of a model of 8 billion parameters: as many layers and heads as the target has."""
    tokens: int = 7
    batch: int = 256
    step_tokens: int = 8192
    leaves_gib: float = 1.4
    """At most so much is free then; a batch of 256 asks for 1.42 GiB more than was profiled."""
    verify_within: ClassVar[float] = 20.0
    spared: ClassVar[str] = "it gets no draft model"
    verdict: ClassVar[str] = "cuda_oom"
    _log_from: int = field(default=0, init=False)

    def blast_radius(self, target: Target) -> str:
        return (
            f"{target.deployment} ({target.actor.place}) is launched anew with a draft model of "
            f"{self.weights_gib:g} GiB, and {self.batch} clients more make a batch for which that "
            "leaves too little: the engine ends with all its requests, and is launched anew in the "
            "undo"
        )

    def undo(self, target: Target) -> Sequence[Action]:
        promised = super().undo(target)
        if target.gpu_file is None or not target.log_files:
            raise TargetError(
                f"{target.name} has no simulated GPUs, whose memory could run out",
                hint=f"leave {self.verdict} out of may_induce",
            )
        return promised

    def inject(self, target: Target) -> None:
        self._log_from = looks.log_of(target).stat().st_size
        self.owe()
        target.relaunch(
            speculative_tokens=self.tokens,
            max_num_seqs=self.batch,
            max_num_batched_tokens=self.step_tokens,
            memory={
                "draft_weights_gib": self.weights_gib,
                "draft_kv_kib_per_token": self.kv_kib_per_token,
                "profiles_draft": False,
            },
        )

    def verify(self, target: Target) -> Evidence:
        free = looks.card(target).free / GIB
        drafted = looks.metric(target, "vllm:spec_decode_num_draft_tokens_total") or 0
        return Evidence(
            free <= self.leaves_gib and drafted > 0,
            f"GPU 0 has {free:.2f} GiB free, and the page counts {drafted:g} draft tokens",
        )

    def fill_batch(self) -> None:
        """Let as many requests run at a time as the engine takes. They come within two seconds, and
        none ends before the last is there."""
        self.load.flood(Mix(self.batch, prompt=(16, 32), answer=(200, 400), pause=2.0))

    def crashed(self, target: Target) -> Evidence:
        """Whether the engine ran out of memory since its relaunch, as its own log has it.

        The flood is over then: so many clients that are refused again and again take a processor.
        """
        found = looks.ran_out_of_memory(target, self._log_from)
        if found.found:
            self.load.calm()
        return found

    def retract(self, target: Target) -> None:
        self.load.calm()
        super().retract(target)
