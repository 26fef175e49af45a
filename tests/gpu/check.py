"""`make gpu-check`: GPUs and processes as they really are: a real GPU, daemon and faults.

What it does, in about two minutes: prints and times every reading; measures power at
rest, in a kernel that only waits, and at work; takes the memory but for next to nothing and
sees the headroom ticket of the shipped rules, then takes more until CUDA refuses and sees the
page; stops a CUDA process and sees that told. What was read is saved as JSON, for use as test
data. Exits with the number of failures.

    python3 -m tests.gpu.check --out DIR            on a machine with a GPU and PyTorch
    python3 -m tests.gpu.check --out DIR --pretend  anywhere, on a simulated driver

With `--fault` it also lets a process read where nothing is, for an Xid 31.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.gpu.watch import Ballast, daemon, until
from tests.support.daemon import Daemon, Hook

from enginewatch.nvml.__main__ import load
from enginewatch.nvml.poller import Poller
from enginewatch.nvml.readings import READINGS

_NOBODY = "GPU-00000000-0000-0000-0000-000000000000"
_TIMES = 20


class Report:
    """What was found out; each line is printed as it comes."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def add(self, name: str, good: object, detail: object = "") -> None:
        self.lines.append({"check": name, "good": bool(good), "detail": detail})
        print(f"{'ok  ' if good else 'FAIL'} {name}: {detail}", flush=True)


def readings(simulation: Path | None) -> dict[str, Any]:
    """Every reading of every GPU once, and what each call takes."""
    nvml = load(simulation)
    if nvml is None:
        sys.exit("pynvml is missing: carry the wheel of nvidia-ml-py")
    nvml.nvmlInit()
    poller = Poller(nvml, time.time)
    poller.open()
    poller.poll(slow=True)
    keys, values = poller.poll(slow=True)
    found: list[dict[str, Any]] = [
        {"name": name, "gpu": gpu, "labels": dict(labels), "value": value}
        for (name, gpu, _, labels), value in zip(keys, values, strict=True)
    ]
    took: dict[str, Any] = {}
    for reading in READINGS:
        times = []
        for _ in range(_TIMES):
            began = time.perf_counter()
            try:
                list(reading.read(nvml, poller.gpus[0].handle))
            except nvml.NVMLError as failure:
                took[reading.name] = {"refused": str(failure)}
                break
            times.append((time.perf_counter() - began) * 1e6)
        else:
            took[reading.name] = {"us_p50": statistics.median(times), "us_max": max(times)}
    polls = [_timed(lambda: poller.poll(slow=False)) for _ in range(_TIMES)]
    return {
        "uuids": [gpu.uuid for gpu in poller.gpus],
        "values": found,
        "took": took,
        "poll_us_p50": statistics.median(polls),
    }


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6


def show(found: dict[str, Any]) -> None:
    for one in found["values"]:
        labels = ",".join(f"{name}={value}" for name, value in one["labels"].items())
        print(f"  gpu {one['gpu']} {one['name']}{{{labels}}} {one['value']:g}")
    for name, took in found["took"].items():
        print(f"  {name}: {took}")
    print(f"  a whole quick poll: {found['poll_us_p50']:.0f} µs", flush=True)


def power(watch: Daemon, ballast: Ballast, report: Report) -> list[dict[str, Any]]:
    """Utilisation and power at rest, waiting, working and at rest again, eight seconds each."""
    found: list[dict[str, Any]] = []
    for doing in ("idle", "wait", "matmul", "idle"):
        ballast.tell(doing)
        time.sleep(8)
        values = {
            name: watch.value(f'gpu:{series}{{gpu="0"}}') or 0.0
            for name, series in (
                ("utilization", "utilization:ratio"),
                ("watts", "power_watts:now"),
                ("limit", "power_limit_watts:now"),
            )
        }
        found.append({"doing": doing, **values})
        print(f"  {found[-1]}", flush=True)
    waiting, working = found[1], found[2]
    busy = waiting["utilization"] > 0.9 and 0 < waiting["watts"] < 0.7 * working["watts"]
    report.add("a kernel that waits is busy and draws little", busy, found)
    return found


def out_of_memory(
    watch: Daemon, ballast: Ballast, hook: Hook, report: Report
) -> list[dict[str, float | None]]:
    """Take all but 1.5 % of the memory, then more until CUDA refuses; what was seen of it."""
    ballast.tell("leave 0.015")
    seen: list[dict[str, float | None]] = []
    free = 'enginewatch_nvml_memory_free_bytes{gpu="0"}'

    def look(found: Callable[[], Any]) -> Any:
        seen.append({"at": time.time(), "free": watch.value(free)})
        return found()

    early = until(lambda: look(lambda: hook.first("EngineGpuHeadroomLow")), 90)
    report.add("the headroom ticket came", early, f"at {watch.value(free) or 0:.3g} bytes free")
    ballast.tell(f"fill {2**30} 1")
    oom = until(lambda: look(lambda: ballast.said("oom")), 120)
    report.add("CUDA ran out of memory", oom, (oom or {}).get("oom", "it did not")[:200])
    if oom is None:
        return seen
    lead = None if early is None else oom["at"] - early
    report.add(
        "the ticket came before it", lead is not None and lead > 0, f"{lead or 0:.1f} s ahead"
    )
    told = until(lambda: hook.first("EngineCudaOutOfMemory"), 30)
    late = None if told is None else told - oom["at"]
    report.add("cuda_oom was paged after it", told, f"{late or 0:.1f} s after the log line")
    holder = f'enginewatch_nvml_process_memory_bytes{{pid="{ballast.process.pid}"}}'
    report.add("its holder is known", watch.value(holder) is not None, watch.values(holder))
    return seen


def diagnosed(log: Path, report: Report) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "enginewatch", "diagnose", "--json", str(log)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    try:
        verdict = json.loads(done.stdout)
    except ValueError:
        report.add("diagnose says cuda_oom", good=False, detail=done.stdout + done.stderr)
        return None
    report.add("diagnose says cuda_oom", verdict["verdict"] == "cuda_oom", verdict.get("fields"))
    return verdict


def stopped(watch: Daemon, ballast: Ballast, hook: Hook, report: Report) -> None:
    """SIGSTOP of a process at work on the GPU, and SIGCONT."""
    ballast.tell("free")
    ballast.tell("matmul")
    time.sleep(5)
    began = time.time()
    ballast.process.send_signal(signal.SIGSTOP)
    state = 'enginewatch_process_state{state="stopped",title="gpu-check-rank"} == 1'
    seen = until(lambda: watch.value(state), 10)
    report.add("a stopped CUDA process is seen", seen, f"after {time.time() - began:.1f} s")
    told = until(lambda: hook.first("EngineRankStopped"), 30)
    late = (told or 1e12) - began
    report.add("it is paged within 15 s", late <= 15, f"{late:.1f} s")
    ballast.process.send_signal(signal.SIGCONT)
    over = until(lambda: True if watch.value(state) is None else None, 15)
    report.add("it goes on", over)


def faulty(watch: Daemon, ballast: Ballast, hook: Hook, report: Report) -> None:
    """An application's own mistake: an Xid that is counted and pages nobody."""
    ballast.tell("fault")
    until(ballast.process.poll, 30)
    seen = until(lambda: watch.values("enginewatch_nvml_xid_total > 0") or None, 20)
    report.add("an Xid was counted", seen, seen)
    time.sleep(12)
    report.add("it paged nobody", hook.first("GpuXid") is None)


def run(out: Path, *, pretend: bool, fault: bool) -> Iterator[tuple[str, Any]]:
    """All steps; the files to save, by name."""
    report, hook = Report(), Hook()
    simulation = out / "gpus.json" if pretend else None
    if simulation is not None:
        simulation.write_text(json.dumps({"gpus": [{"uuid": _NOBODY}]}))
    found = readings(simulation)
    show(found)
    yield "readings.json", found
    log = out / "ballast.log"
    log.write_text("")
    with ExitStack() as ends:
        watch = ends.enter_context(daemon(out, hook, log, simulation))
        ballast = Ballast(log, simulation)
        ends.callback(ballast.end)
        report.add("PyTorch is ready", until(lambda: ballast.said("ready"), 120))
        ready = until(lambda: watch.value("enginewatch_nvml_available == 1"), 60)
        report.add("the driver answers", ready, watch.values("enginewatch_nvml_info"))
        time.sleep(6)
        yield "power.json", power(watch, ballast, report)
        yield "headroom.json", out_of_memory(watch, ballast, hook, report)
        yield "diagnose.json", diagnosed(log, report)
        stopped(watch, ballast, hook, report)
        if fault:
            faulty(watch, ballast, hook, report)
    yield "alerts.json", hook.received
    yield "summary.json", report.lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.check", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-check-out"))
    parser.add_argument("--pretend", action="store_true", help="on a simulated driver")
    parser.add_argument("--fault", action="store_true", help="also provoke an Xid 31")
    given = parser.parse_args()
    out: Path = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    lines, uuids = [], []
    for name, what in run(out, pretend=given.pretend, fault=given.fault):
        if name == "readings.json":
            uuids = what["uuids"]
        text = json.dumps(what, indent=1)
        for uuid in uuids:  # what is kept as test data names no machine
            text = text.replace(uuid, _NOBODY)
        (out / name).write_text(text)
        if name == "summary.json":
            lines = what
    # What the daemon needed and nobody else does: only a few files are brought back.
    for leftover in ("enginewatch.yml", "gpus.json"):
        (out / leftover).unlink(missing_ok=True)
    shutil.rmtree(out / "state", ignore_errors=True)
    failures = sum(not line["good"] for line in lines)
    print(f"{failures} of {len(lines)} checks failed; see {out}")
    sys.exit(min(failures, os.EX_USAGE))


if __name__ == "__main__":
    main()
