"""What faults look at for evidence: an engine's own page, its log, its GPU. Never the watchdog."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families

from enginechaos.errors import TargetError
from enginechaos.faults.base import Evidence
from enginechaos.load import Load
from enginechaos.target import Target

_SENTENCE: Final = "CUDA out of memory. Tried to allocate"


class Card(NamedTuple):
    """A GPU as its driver tells it: bytes that nobody holds, and bytes by process."""

    free: int
    held: dict[int, int]


def card(target: Target, gpu: int = 0) -> Card:
    """Of the simulated GPUs. Raises TargetError where there are none."""
    if target.gpu_file is None:
        raise TargetError(f"{target.name} has no simulated GPUs")
    found = json.loads(target.gpu_file.read_text("utf-8"))["gpus"][gpu]
    held = {each["pid"]: each["memory"] for each in found["processes"]}
    memory = found["memory"]
    return Card(memory["total"] - memory.get("reserved", 0) - sum(held.values()), held)


def metric(target: Target, name: str) -> float | None:
    """The sum of a metric on the engine's page; None where it has none, or gives no page."""
    try:
        page = httpx.get(target.metrics_url, timeout=3, trust_env=False).raise_for_status().text
    except httpx.HTTPError:
        return None
    samples = (each for family in text_string_to_metric_families(page) for each in family.samples)
    found = [each.value for each in samples if each.name == name]
    return sum(found) if found else None


def load_is_back(target: Target, within: float = 15.0) -> None:
    """Wait until a relaunched engine's page tells of requests: clients come back within a second,
    and a first step of seconds shows none of them before it ends."""
    deadline = time.monotonic() + within
    while not metric(target, "vllm:num_requests_running") and time.monotonic() < deadline:
        time.sleep(0.1)


def log_of(target: Target) -> Path:
    return target.log_files[0]


def ran_out_of_memory(target: Target, log_from: int) -> Evidence:
    """Whether the engine's log says so after its first `log_from` bytes, and nobody answers."""
    with log_of(target).open("rb") as log:
        log.seek(log_from)
        said = log.read().decode("utf-8", "replace")
    line = next((each.strip() for each in said.splitlines() if _SENTENCE in each), "")
    answer = answer_of(target.url)
    what = f"the log says {line[:200] or 'nothing of it'}; {target.url} {answer or 'is closed'}"
    return Evidence(bool(line) and not answer, what)


def answer_of(url: str) -> str:
    """What /health answers, such as `answers 200`; empty when nobody listens there."""
    try:
        return f"answers {httpx.get(f'{url}/health', timeout=2, trust_env=False).status_code}"
    except httpx.ConnectError:
        return ""
    except httpx.HTTPError as failure:
        return f"fails: {failure or type(failure).__name__}"


def slower_streams(
    load: Load, since: float, before: float | None, *, times: float, at_least: float
) -> Evidence:
    """Whether the clients' mean gap, over the last 5 s and not before `since`, is `times` what it
    was `before`, and `at_least` seconds."""
    now = load.figures(min(5.0, time.time() - since)).mean_gap
    if before is None or now is None:
        return Evidence(False, "the clients have no gaps to compare")
    return Evidence(
        now >= at_least and now >= times * before,
        f"mean gap of the quiet clients {now * 1000:.0f} ms, {before * 1000:.0f} ms before",
    )
