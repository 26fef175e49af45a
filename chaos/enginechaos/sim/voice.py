"""Log lines: who says one, how grave it is, where in the engine's source it stands."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field


@dataclass
class Voice:
    """One process of the engine, on its standard output. A subclass a dialect says how a line
    looks."""

    who: str
    pid: int = field(default_factory=os.getpid)

    def info(self, where: str, text: str) -> None:
        self._say("INFO", where, text)

    def warning(self, where: str, text: str) -> None:
        self._say("WARNING", where, text)

    def error(self, where: str, text: str) -> None:
        self._say("ERROR", where, text)

    def line(self, level: str, where: str, text: str) -> str:
        """vLLM's form."""
        stamp = time.strftime("%m-%d %H:%M:%S")
        return f"({self.who} pid={self.pid}) {level} {stamp} [{where}] {text}"

    def _say(self, level: str, where: str, text: str) -> None:
        print("\n".join(self.line(level, where, each) for each in text.split("\n")), flush=True)
