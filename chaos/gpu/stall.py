"""Ranks that stall, one fault at a time: when does enginewatch page, and when the backend speak?

    python -m chaos.gpu.stall --backend nccl --gpus 2 --out DIR
    python -m chaos.gpu.stall --backend gloo --gpus 0 --python /path/with/torch/python --out DIR

Each case starts ranks and the daemon anew, waits until both are steady, injects, verifies that by
/proc or the ranks' own progress, watches, and undoes. The folder gets `results.json`, `table.md`,
and per case the logs of the ranks and what NCCL's RAS said, with identifiers replaced.
"""

from __future__ import annotations

import argparse
import json
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from chaos.gpu.group import Group, Plan, StallError
from chaos.gpu.identifiers import replace_identifiers
from chaos.gpu.observe import Observer, watchdog
from chaos.gpu.table import table

from enginechaos.errors import WatchdogError

DELAYS: Final = (0.1, 1.0, 5.0, 20.0)
_TAIL: Final = 12.0
"""Seconds watched after the backend's own timeout."""
_FAILED_SCRAPES: Final = 75.0
"""Until the page of an engine that is gone."""
_KEPT_OF_FLIGHT: Final = 20

Case = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One start of ranks and daemon, and the settings of all."""

    name: str
    plan: Plan
    steady: float
    scratch: Path

    @property
    def folder(self) -> Path:
        return self.scratch / self.name


def stop(group: Group, seen: Observer, run: Run) -> Iterator[Case]:
    """SIGSTOP of the last rank, for longer than the collective's timeout; SIGCONT."""
    rank = group.size - 1
    seen.inject()
    group.signal(rank, signal.SIGSTOP)
    try:
        seen.watch(1.0)
        states = {each: group.state(each) for each in range(group.size)}
        seen.watch(run.plan.timeout + _TAIL)
    finally:
        if group.state(rank):
            group.signal(rank, signal.SIGCONT)
    continued = seen.after
    seen.watch(8.0, lambda: not group.lives(rank))
    verified = {"good": states[rank] == "T", "states": states}
    undone = {"at": continued, "state": group.state(rank) or "gone"}
    yield {"case": "SIGSTOP of one rank", "verified": verified, "undone": undone, **seen.found()}


def kill(group: Group, seen: Observer, run: Run) -> Iterator[Case]:
    """SIGKILL of the last rank; what is left is replaced in the next case."""
    rank = group.size - 1
    seen.inject()
    group.signal(rank, signal.SIGKILL)
    seen.watch(1.0)
    state = group.state(rank)
    # Where the others end too, the page of that comes from the scrapes that fail.
    seen.watch(max(run.plan.timeout + _TAIL, _FAILED_SCRAPES))
    verified = {"good": state == "Z", "states": {rank: state}}
    yield {"case": "SIGKILL of one rank", "verified": verified, "undone": {}, **seen.found()}


def delay(group: Group, seen: Observer, _: Run) -> Iterator[Case]:
    """A busy loop in the last rank, of each length; it ends by itself."""
    for seconds in DELAYS:
        seen.inject()
        group.order(group.size - 1, "busy", seconds)
        slowest = 0.0

        def held(at_least: float = seconds) -> bool:
            nonlocal slowest
            slowest = max(slowest, group.progress(0).slowest)
            return slowest >= at_least and seen.after > at_least + 8

        seen.watch(seconds + 15, held)
        verified = {"good": slowest >= seconds, "slowest_step_of_rank_0": round(slowest, 2)}
        found = seen.found()
        undone = {"steps": [group.progress(each).step for each in range(group.size)]}
        yield {
            "case": f"busy loop of {seconds:g} s in one rank",
            "verified": verified,
            "undone": undone,
            **found,
        }
        seen.ended.clear()
        seen.gpu.clear()
        seen.ras.clear()
        # The pages of this one must be over before the next, and its slow step forgotten.
        if seconds != DELAYS[-1]:
            seen.watch(11.0)


def hold(group: Group, seen: Observer, run: Run) -> Iterator[Case]:
    """A kernel that only waits, before the last rank's collective: no process is stopped."""
    rank, seconds = group.size - 1, run.plan.timeout + 20
    seen.inject()
    group.order(rank, "hold", seconds)
    seen.watch(2.0)
    before = group.progress(rank).step
    seen.watch(3.0)
    verified = {"good": group.progress(rank).step == before, "step": before}
    seen.watch(run.plan.timeout + _TAIL - 5)
    yield {
        "case": "a kernel that waits, in one rank's stream",
        "verified": verified,
        "undone": {},
        **seen.found(),
    }


CASES: Final[dict[str, Callable[[Group, Observer, Run], Iterator[Case]]]] = {
    "stop": stop,
    "kill": kill,
    "delay": delay,
    "hold": hold,
}


def variants(backend: str) -> dict[str, dict[str, str]]:
    """Environments to repeat `stop` and `hold` in: NCCL's and PyTorch's own instruments."""
    if backend != "nccl":
        return {"": {}}
    # Both names of what PyTorch renamed: 2.9 and newer say TORCH_FR_*.
    recorder = {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": "flight_",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "flight_",
    }
    monitor = {"TORCH_NCCL_ENABLE_MONITORING": "1", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "20"}
    off = {
        "TORCH_NCCL_ENABLE_MONITORING": "0",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
        "TORCH_FR_BUFFER_SIZE": "0",
    }
    return {"": off, "-monitored": {**recorder, **monitor}}


def runs(given: argparse.Namespace, scratch: Path) -> Iterator[tuple[str, Run]]:
    """What to do, in order: each case, and its repeats where NCCL has instruments for it."""
    plan = Plan(given.python, given.backend, given.ranks, given.gpus, given.timeout)
    for case in given.cases:
        for suffix, environment in variants(given.backend).items():
            if suffix and case not in ("stop", "hold"):
                continue
            name = f"{case}{suffix}"
            folder = scratch / name
            folder.mkdir(parents=True, exist_ok=True)
            own = {
                key: str(folder / value) if value == "flight_" else value
                for key, value in environment.items()
            }
            if given.backend == "gloo":
                # Else it looks the host's name up, which a machine without a network can't.
                own["GLOO_SOCKET_IFNAME"] = "lo"
            else:
                own |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,RAS"}
            yield case, Run(name, replace(plan, environment=own), given.steady, scratch)


def carry_out(case: str, run: Run) -> list[Case]:
    """Start, do, and end. What keeps it from being done is its result, too."""
    try:
        with Group(run.plan, run.folder) as group:
            watch = watchdog(group, run.folder / "watchdog", run.plan.gpus)
            try:
                seen = Observer(group, watch, gpus=run.plan.gpus, nccl=run.plan.backend == "nccl")
                seen.steady(run.steady)
                found = list(CASES[case](group, seen, run))
            finally:
                watch.stop()
    except (StallError, WatchdogError) as failure:
        verified = {"good": False, "failure": str(failure)}
        nothing: Case = {"alerts": [], "said": [], "ended": {}, "gpu": [], "ras": []}
        found = [{"case": case, "verified": verified, "undone": {}, **nothing}]
    return [{"run": run.name, "environment": dict(run.plan.environment), **each} for each in found]


def save(out: Path, run: Run, found: list[Case], clean: Callable[[str], str]) -> None:
    """The logs, RAS reports and flight recordings of a run, without identifiers."""
    folder = out / run.name
    folder.mkdir(parents=True, exist_ok=True)
    for log in [*run.folder.glob("rank*.log"), *(run.folder / "watchdog").glob("*.log")]:
        (folder / log.name).write_text(clean(log.read_text(errors="replace")))
    said = [
        f"# after {each['after']} s {' '.join(each['settings'])}\n{each['text']}"
        for case in found
        for each in case["ras"]
    ]
    if said:
        (folder / "ras.txt").write_text(clean("\n".join(said)))
    for path in run.folder.glob("flight_*"):
        try:
            tree = pickle.loads(path.read_bytes())  # noqa: S301 - written by our own ranks
        except (pickle.UnpicklingError, EOFError, ValueError) as failure:
            tree = {"unreadable": str(failure)}
        if isinstance(tree.get("entries"), list):
            tree["entries"] = tree["entries"][-_KEPT_OF_FLIGHT:]
        text = clean(json.dumps(tree, indent=1, default=str))
        (folder / f"{path.name}.json").write_text(text)


def cleaner() -> Callable[[str], str]:
    hosts = {socket.gethostname(): "gpu-host", socket.getfqdn(): "gpu-host"}
    folders = {str(Path.cwd()): "/srv/enginewatch", str(Path.home()): "/home/user"}
    return lambda text: replace_identifiers(text, hosts=hosts, folders=folders)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.gpu.stall", description=__doc__)
    parser.add_argument("--backend", choices=("nccl", "gloo"), required=True)
    parser.add_argument("--gpus", type=int, default=0, help="0: ranks on processors (gloo)")
    parser.add_argument(
        "--ranks",
        type=int,
        help="one a GPU, and two at least under gloo; NCCL's share a GPU as hosts of their own",
    )
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--timeout", type=float, default=30.0, help="of a collective, in seconds")
    parser.add_argument("--steady", type=float, default=10.0, help="seconds of work beforehand")
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES))
    parser.add_argument("--out", type=Path, default=Path("gpu-stall-out"))
    given = parser.parse_args(words)
    given.ranks = given.ranks or max(given.gpus, 2 if given.backend == "gloo" else 1)
    if given.backend == "nccl" and not given.gpus:
        parser.error("NCCL needs a GPU: --gpus 1")
    if given.cases is None:
        among_several = ("stop", "kill", "delay") if given.ranks > 1 else ()
        given.cases = [*among_several, *(("hold",) if given.gpus else ())]
    if "delay" in given.cases and given.timeout <= DELAYS[-1]:
        parser.error(f"a delay of {DELAYS[-1]:g} s needs a --timeout that is longer")
    return given


def main() -> None:
    given, clean = arguments(), cleaner()
    # As Ctrl-C: no rank is left behind, on a GPU or stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    out: Path = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="stall-"))
    results: list[Case] = []
    began = time.time()
    try:
        for case, run in runs(given, scratch):
            found = carry_out(case, run)
            save(out, run, found, clean)
            results += found
            # After each, so that what was measured outlives a time limit.
            (out / "results.json").write_text(clean(json.dumps(results, indent=1)))
            (out / "table.md").write_text(clean(table(results)))
            print(f"{time.time() - began:.0f} s: {run.name} done", flush=True)
            for each in found:
                print(f"  {each['case']}: {each['verified']}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print((out / "table.md").read_text() if results else "nothing was done")
    sys.exit(0 if results and all(each["verified"]["good"] for each in results) else 1)


if __name__ == "__main__":
    main()
