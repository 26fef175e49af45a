"""Faults, and what is needed to write one."""

from __future__ import annotations

from enginechaos.actions import Action, Command, End, EndsWithRun, Remove, Restore, Signal
from enginechaos.faults.base import Evidence, Fault, NoFault
from enginechaos.faults.flood import PromptFlood
from enginechaos.faults.rank import StoppedRank
from enginechaos.processes import Process
from enginechaos.target import Target

__all__ = [
    "Action",
    "Command",
    "End",
    "EndsWithRun",
    "Evidence",
    "Fault",
    "NoFault",
    "Process",
    "PromptFlood",
    "Remove",
    "Restore",
    "Signal",
    "StoppedRank",
    "Target",
]
