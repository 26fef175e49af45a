"""Faults, and what is needed to write one."""

from __future__ import annotations

from enginechaos.actions import Action, Command, End, EndsWithRun, Remove, Restore, Signal
from enginechaos.faults.base import Evidence, Fault, NoFault
from enginechaos.faults.budget import SmallTokenBudget, WholePrompts
from enginechaos.faults.core import StoppedCore
from enginechaos.faults.draft import OversizedDraft
from enginechaos.faults.engine_dir import ReplacedEngine
from enginechaos.faults.flood import PromptFlood
from enginechaos.faults.format import DamagedFormat
from enginechaos.faults.gpu import HungDriver
from enginechaos.faults.memory import MemoryBallast
from enginechaos.faults.metrics import (
    EmptyPage,
    HungScrape,
    MetricsProxy,
    RemovedMetrics,
    RenamedMetrics,
)
from enginechaos.faults.network import RankLink, SlowLink
from enginechaos.faults.rank import KilledRank, StoppedRank
from enginechaos.faults.receivers import ReceiverDown
from enginechaos.faults.relay import RankRelay, StalledLink
from enginechaos.faults.together import Together
from enginechaos.processes import Process
from enginechaos.target import Target

__all__ = [
    "Action",
    "Command",
    "DamagedFormat",
    "EmptyPage",
    "End",
    "EndsWithRun",
    "Evidence",
    "Fault",
    "HungDriver",
    "HungScrape",
    "KilledRank",
    "MemoryBallast",
    "MetricsProxy",
    "NoFault",
    "OversizedDraft",
    "Process",
    "PromptFlood",
    "RankLink",
    "RankRelay",
    "ReceiverDown",
    "Remove",
    "RemovedMetrics",
    "RenamedMetrics",
    "ReplacedEngine",
    "Restore",
    "Signal",
    "SlowLink",
    "SmallTokenBudget",
    "StalledLink",
    "StoppedCore",
    "StoppedRank",
    "Target",
    "Together",
    "WholePrompts",
]
