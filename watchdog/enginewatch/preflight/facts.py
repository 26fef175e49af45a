"""All that the inputs of one preflight say: tuples of what the readers gave, and nothing derived.

How a check is made:

1. A reader (`readers/…`) turns bytes or text into a frozen record that knows its `where`
   (a file, `file:line` or a flag) and never raises for what stands in a file: what it
   can't read is an `Unread`, which becomes a finding of its own.
2. The record is kept in a member of `Facts`, a tuple that is empty by default; `inputs.py`
   has a function for each option of the command, from its value to `Facts`.
3. A check is a module with `samples(facts) -> Iterable[Observed]`, listed in `checks.CHECKS`
   under the name of its rule file. It knows no threshold. What follows from physics
   (bytes, statistics) it computes and documents.
4. `rules/preflight/<check>.yml` judges; `judge.py` says what an alert there must carry.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from enginewatch.canary.evaluation import Evaluation
from enginewatch.canary.look import Look
from enginewatch.preflight.readers.checkpoint import Checkpoint
from enginewatch.preflight.readers.demand import Demand
from enginewatch.preflight.readers.endpoint import Endpoint
from enginewatch.preflight.readers.engine_dir import EngineDir
from enginewatch.preflight.readers.gpu_code import GpuCode
from enginewatch.preflight.readers.gpus import Gpus
from enginewatch.preflight.readers.launch import Launch
from enginewatch.preflight.readers.named import Named
from enginewatch.preflight.readers.repository import Repository
from enginewatch.preflight.readers.stampfile import Stamp
from enginewatch.preflight.readers.unread import Unread
from enginewatch.preflight.readers.versions import Version
from enginewatch.preflight.readers.workload import Front, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known. An empty member is not known, and neither good nor bad."""

    gpus: tuple[Gpus, ...] = ()
    """The target's, one record for each model; of this machine unless declared."""
    versions: tuple[Version, ...] = ()
    """Of the runtime that will serve, from declarations first: the first of a name counts."""
    engines: tuple[EngineDir, ...] = ()
    stamps: tuple[Stamp, ...] = ()
    """Of the engines that have one, each with the engine's `where`."""
    repositories: tuple[Repository, ...] = ()
    libraries: tuple[GpuCode, ...] = ()
    """Of shared libraries, cubins and wheels."""
    launches: tuple[Launch, ...] = ()
    """Of commands, scripts and manifests, each start of an engine."""
    workloads: tuple[Workload, ...] = ()
    """Containers of manifests, those too that start no engine that is known."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Directories of weights that were given, each for the model or for the draft."""
    named: tuple[Named, ...] = ()
    """Models known by their public name alone."""
    fronts: tuple[Front, ...] = ()
    """What stands before the engine: ingresses and routes, with their timeouts."""
    demands: tuple[Demand, ...] = ()
    """What the deployment is to carry; of each value the first that is given counts."""
    evaluations: tuple[Evaluation, ...] = ()
    """Of what is to be rolled out."""
    baselines: tuple[Evaluation, ...] = ()
    """Of the unquantized model."""
    canaries: tuple[Look, ...] = ()
    """What golden tasks were answered, beside the pass rates, which are evaluations."""
    endpoints: tuple[Endpoint, ...] = ()
    """Running ones, each looked at once."""
    unread: tuple[Unread, ...] = ()
    """Inputs, or parts of them, that could not be read. Never a reason to pass."""

    def __add__(self, more: Facts) -> Facts:
        """What both say, this first."""
        return Facts(
            **{own.name: getattr(self, own.name) + getattr(more, own.name) for own in fields(Facts)}
        )
