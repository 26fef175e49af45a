"""What NCCL's RAS subsystem says of a job: its communicators, and the ranks that are out of step.

Two formats of one account: `ras_text` reads the one for people (NCCL 2.24 and newer),
`ras_json` the one for machines (2.28.7 and newer). The words are those of NCCL's source,
src/ras/client_support.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from enginewatch.errors import EnginewatchError


class Reason(StrEnum):
    """Why there is no account of a job."""

    REFUSED = "refused"
    """Nobody listens: no job, NCCL before 2.24, or NCCL_RAS_ENABLE=0."""
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    """The connection was accepted, and then nothing came: a process that does not run."""
    NOT_NCCL = "not_nccl"
    CUT_OFF = "cut_off"
    UNREADABLE = "unreadable"


class RasError(EnginewatchError):
    def __init__(self, reason: Reason, what: str, *, where: str = ""):
        super().__init__(what, where=where)
        self.reason: Final = reason


class Status(StrEnum):
    """Of a communicator: that of its ranks which is furthest along, the last one first here."""

    ABORT = "abort"
    FINALIZE = "finalize"
    RUNNING = "running"
    INIT = "init"
    NOCOMM = "nocomm"
    """The process answers, and says that it is no member. NCCL before 2.26 calls it UNKNOWN."""


class Fault(StrEnum):
    INCOMPLETE = "incomplete"
    """A process that has ranks of it does not answer."""
    ERROR = "error"
    """A rank reports an error of its initialization, or an asynchronous one."""
    MISMATCH = "mismatch"
    """Ranks differ in status, or in how many operations they have launched. A running job's may
    at any moment."""


class Process(NamedTuple):
    pid: int
    node: str


class Member(NamedTuple):
    """A rank of a communicator; `process` is None where NCCL does not say it."""

    rank: int
    gpu: str = ""
    process: Process | None = None

    def __str__(self) -> str:
        if self.process is None:
            return f"rank {self.rank}"
        return (
            f"rank {self.rank} (GPU {self.gpu}, process {self.process.pid} on {self.process.node})"
        )


class Lost(NamedTuple):
    """A rank that gives no answer. `dead`: not for a minute, and NCCL has given it up."""

    member: Member
    dead: bool


class Level(NamedTuple):
    """Ranks that have launched as many operations; `members` are those that NCCL names."""

    operations: int
    ranks: int
    members: tuple[Member, ...] = ()


class Apart(NamedTuple):
    """Ranks of one communicator differ in how many operations of one kind they have launched."""

    operation: str
    levels: tuple[Level, ...]
    """Each number of operations once."""

    @property
    def behind(self) -> int:
        """How many operations the last rank is behind the first."""
        counts = [level.operations for level in self.levels]
        return max(counts) - min(counts)


@dataclass(frozen=True, slots=True)
class Communicator:
    """`name` is NCCL's hash, which its own log has as well. `lost_ranks` counts `lost` and those
    that NCCL does not name; `errors` are reports of single ranks, in NCCL's words."""

    name: str
    size: int
    status: Status
    faults: frozenset[Fault] = frozenset()
    lost: tuple[Lost, ...] = ()
    lost_ranks: int = 0
    apart: tuple[Apart, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """`groups` counts all communicators; `communicators` are those that NCCL names: in text only
    those with a fault. `processes` is None where the account does not say."""

    version: str
    format: str
    groups: Mapping[tuple[Status, frozenset[Fault]], int]
    communicators: tuple[Communicator, ...] = ()
    processes: int | None = None
    dead: int = 0
    """Processes that NCCL has given up."""
    unresponsive: int = 0
    """Processes that gave no answer this time."""
    timeouts: int = 0
    """How often data of other processes did not come in time."""
    seconds: float = field(default=0.0, compare=False)
    """How long NCCL took to ask all processes."""
