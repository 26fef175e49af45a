"""The simulated engine as it is run: processes, signals, HTTP, a log and a GPU file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from enginechaos.processes import stat
from enginechaos.sim import engine_dir
from enginechaos.sim.engine_dir import Build

pytestmark = pytest.mark.integration


@dataclass
class Sim:
    process: subprocess.Popen[str]
    url: str
    folder: Path

    @property
    def log(self) -> str:
        path = self.folder / "engine.log"
        return path.read_text() if path.exists() else ""

    @property
    def gpus(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "gpu.json").read_text())["gpus"]
        return found

    def rank(self, number: int) -> int:
        """Its process, which holds the memory of its GPU."""
        pid: int = self.gpus[number]["processes"][0]["pid"]
        return pid

    def value(self, series: str) -> float:
        page = httpx.get(f"{self.url}/metrics", trust_env=False).text
        found = re.search(rf"^{series}\S* (\S+)$", page, re.MULTILINE)
        assert found, series
        return float(found[1])

    @contextlib.contextmanager
    def stream(self, **body: Any) -> Iterator[httpx.Response]:
        asked = {"prompt": "Tell me", "max_tokens": 8000, "ignore_eos": True, "stream": True}
        with (
            httpx.Client(trust_env=False, timeout=30) as client,
            client.stream("POST", f"{self.url}/v1/completions", json={**asked, **body}) as answer,
        ):
            yield answer


@contextlib.contextmanager
def started(folder: Path, **settings: Any) -> Iterator[Sim]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = {"port": port, "log_file": "engine.log", "gpu_file": "gpu.json", **settings}
    (folder / "sim.yml").write_text(json.dumps({**given, "startup_seconds": 0}))
    command = [sys.executable, "-m", "enginechaos.sim", "--config", str(folder / "sim.yml")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield Sim(process, f"http://127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.stdout.close()


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_stopped_rank_hangs_an_engine_that_calls_itself_healthy(tmp_path: Path) -> None:
    with started(tmp_path, tensor_parallel=2, execute_model_timeout=4) as sim:
        with sim.stream() as answer:
            lines = answer.iter_lines()
            assert "text_completion" in next(lines)
            rank = sim.rank(1)
            assert Path(f"/proc/{rank}/cmdline").read_bytes().startswith(b"VLLM::Worker_TP1\0")
            os.kill(rank, signal.SIGSTOP)
            time.sleep(1.2)
            before = sim.value("vllm:generation_tokens_total")
            time.sleep(1.2)
            assert sim.value("vllm:generation_tokens_total") == before > 0
            assert sim.value("vllm:num_requests_running") == 1
            assert httpx.get(f"{sim.url}/health", trust_env=False).status_code == 200
            other, stopped = sim.gpus
            assert other["utilization"]["gpu"] == 100
            assert other["power"] < 130_000
            assert stopped["utilization"]["gpu"] == 0
            rest = "\n".join(lines)
        assert "EngineCore encountered an issue" in rest
        assert sim.process.wait(20) == 0
        for said in (
            "TimeoutError: RPC call to execute_model timed out.",
            "EngineCore encountered a fatal error.",
            "vllm.v1.engine.exceptions.EngineDeadError",
        ):
            assert said in sim.log
        left = stat(rank)
        assert left is None or left.state == "Z"
        assert [gpu["memory"]["used"] for gpu in sim.gpus] == [0, 0]


def test_a_rank_that_goes_on_in_time_takes_the_engine_with_it(tmp_path: Path) -> None:
    with started(tmp_path, tensor_parallel=2, ranks={"link": "tcp"}) as sim, sim.stream() as answer:
        lines = answer.iter_lines()  # it closes the stream when it is let go
        next(lines)
        rank = sim.rank(1)
        os.kill(rank, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(rank, signal.SIGCONT)
        before = sim.value("vllm:generation_tokens_total")
        assert before > 0
        until(lambda: sim.value("vllm:generation_tokens_total") > before)


def test_a_slow_link_between_ranks_slows_each_step(tmp_path: Path) -> None:
    """A proxy stands for the link; each of a step's two collectives crosses it there and back."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        far = f"127.0.0.1:{free.getsockname()[1]}"
    with delaying(far) as (near, delay):
        link = {"link": "tcp", "listen": far, "through": near}
        with started(tmp_path, tensor_parallel=2, ranks=link) as sim, sim.stream() as answer:
            lines = answer.iter_lines()
            next(lines)
            delay.set()
            time.sleep(0.5)
            before = sim.value("vllm:generation_tokens_total")
            time.sleep(2)
            made = sim.value("vllm:generation_tokens_total") - before
            assert 1 <= made <= 2 / (4 * DELAY) + 1
            delay.clear()
            before = sim.value("vllm:generation_tokens_total")
            until(lambda: sim.value("vllm:generation_tokens_total") > before + 10)


DELAY = 0.1


@contextlib.contextmanager
def delaying(far: str) -> Iterator[tuple[str, threading.Event]]:
    """A proxy to `far` that holds all for DELAY seconds while the event is set."""
    delay = threading.Event()

    def pass_on(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                if delay.is_set():
                    time.sleep(DELAY)
                sink.sendall(data)

    with contextlib.ExitStack() as open_sockets:
        door = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            near, _ = door.accept()
            host, _, port = far.rpartition(":")
            other = socket.create_connection((host, int(port)))
            for each in (near, other):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_sockets.enter_context(each)
            back = threading.Thread(target=pass_on, args=(other, near), daemon=True)
            back.start()
            pass_on(near, other)
            other.shutdown(socket.SHUT_RDWR)
            back.join()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{door.getsockname()[1]}", delay
        thread.join(10)


def test_a_killed_rank_is_the_end_and_the_log_says_whose(tmp_path: Path) -> None:
    with started(tmp_path, tensor_parallel=2) as sim:
        with sim.stream() as answer:
            lines = answer.iter_lines()
            next(lines)
            os.kill(sim.rank(1), signal.SIGKILL)
            sim.process.wait(20)
        assert "VllmWorker-1 died unexpectedly (exit code: -9)" in sim.log


def test_memory_that_another_process_took_is_missing_when_a_batch_needs_it(tmp_path: Path) -> None:
    drafting = {"speculative_tokens": 7, "max_num_seqs": 16, "memory": {"logit_copies": 24}}
    with started(tmp_path, **drafting) as sim:
        command = [sys.executable, "-m", "enginechaos.sim.gpu", str(tmp_path / "gpu.json")]
        with subprocess.Popen([*command, "--leave-gib", "0.2"], stdout=subprocess.PIPE) as ballast:
            assert ballast.stdout is not None
            assert b"holding" in ballast.stdout.readline()
            with httpx.Client(trust_env=False, timeout=60) as client:
                body = {"prompt": ["one"], "max_tokens": 40, "ignore_eos": True}
                assert client.post(f"{sim.url}/v1/completions", json=body).status_code == 200
            with contextlib.ExitStack() as streams:
                for _ in range(16):
                    with contextlib.suppress(httpx.HTTPError):
                        streams.enter_context(sim.stream())
                    if sim.process.poll() is not None:
                        break
                sim.process.wait(30)
            ballast.terminate()
        assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in sim.log


def test_an_engine_built_for_another_gpu_never_serves(tmp_path: Path) -> None:
    engine_dir.write(tmp_path / "engine", Build.of("10.0", "10.6.0.26"), ranks=1)
    with started(tmp_path, dialect="trtllm", engine_dir="engine") as sim:
        assert sim.process.wait(20) == 1
        assert "expecting compute 9.0 got compute 10.0, please rebuild." in sim.log
        assert "Failed to deserialize cuda engine" in sim.log


def test_a_wrong_setting_ends_it_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "sim.yml").write_text("fromat: bf16\n")
    command = [sys.executable, "-m", "enginechaos.sim", "--config", str(tmp_path / "sim.yml")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "fromat" in found.stderr
    assert "Traceback" not in found.stderr
