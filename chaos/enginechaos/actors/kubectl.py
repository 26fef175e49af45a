"""Acts in a pod through `kubectl exec`: what the cluster allows this user, and no more.

The container needs `sh`, `cat` and `kill`, which every engine image has. Its own pid
namespace is all that is seen, so other pods of the node are out of reach.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from enginechaos.actors.base import Done
from enginechaos.actors.local import Local
from enginechaos.errors import TargetError
from enginechaos.processes import Process, parse_stat

_MARK: Final = "--enginechaos--"
_TABLE: Final = (
    "for p in /proc/[0-9]*; do "
    f'[ -r "$p/stat" ] || continue; echo "{_MARK}"; cat "$p/stat" 2>/dev/null; '
    'tr "\\0" " " <"$p/cmdline" 2>/dev/null; echo; done'
)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9./]*[a-z0-9])?")


@dataclass(frozen=True)
class Kubectl:
    """`pod` may be a pod's name, or `deployment/NAME`, of which kubectl picks one pod."""

    pod: str
    namespace: str = "default"
    container: str = ""
    context: str = ""
    program: str = "kubectl"

    def __post_init__(self) -> None:
        for key, value in (("pod", self.pod), ("namespace", self.namespace)):
            if not _NAME.fullmatch(value):
                raise TargetError(f"{value!r} is not a name in Kubernetes", where=key)

    @property
    def place(self) -> str:
        return f"pod {self.pod} in namespace {self.namespace}"

    def spec(self) -> Mapping[str, Any]:
        return {"kind": "kubectl", **{k: v for k, v in asdict(self).items() if v}}

    def run(self, argv: Sequence[str], within: float = 20.0) -> Done:
        return self.kubectl("exec", self.pod, *self._container(), "--", *argv, within=within)

    def kubectl(self, *arguments: str, within: float = 20.0) -> Done:
        """A command of kubectl's own in the namespace."""
        context = ["--context", self.context] if self.context else []
        verb, *rest = arguments
        done = Local().run(
            [self.program, *context, "--namespace", self.namespace, verb, *rest], within
        )
        if done.code and re.search(
            r"Unable to connect|forbidden|NotFound|Unauthorized", done.errors
        ):
            raise TargetError(
                f"kubectl {verb}: {done.errors.strip()[:300]}",
                where=self.place,
                hint="does `kubectl exec` into it work by hand?",
            )
        return done

    def processes(self) -> Sequence[Process]:
        done = self.run(["sh", "-c", _TABLE])
        if done.code:
            raise TargetError(
                f"can't list processes: {done.errors.strip()[:300]}", where=self.place
            )
        return list(filter(None, map(_process, done.output.split(f"{_MARK}\n"))))

    def state(self, process: Process) -> str:
        done = self.run(["cat", f"/proc/{process.pid}/stat"])
        if done.code:
            return ""
        found = parse_stat(done.output)
        return found.state if found.started == process.started else ""

    def signal(self, process: Process, name: str) -> bool:
        if not self.state(process):
            return False
        done = self.run(["sh", "-c", f"kill -{name} {process.pid}"])
        if done.code and self.state(process):
            raise TargetError(
                f"kill -{name} of {process}: {done.errors.strip()[:200]}", where=self.place
            )
        return done.code == 0

    def _container(self) -> list[str]:
        return ["--container", self.container] if self.container else []


def _process(block: str) -> Process | None:
    line, _, command = block.partition("\n")
    try:
        found = parse_stat(line)
    except ValueError:
        return None
    return Process(found.pid, found.started, found.parent, command.strip())
