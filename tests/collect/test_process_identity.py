"""Which engine a process belongs to, by its command line and those above it."""

from __future__ import annotations

import pytest

from enginewatch.collect.process_identity import (
    Identity,
    configured_patterns,
    identify,
    known_patterns,
    local_targets,
    owner,
    port_of,
)
from enginewatch.config import EngineProcessConfig
from enginewatch.model import Labels, Target
from enginewatch.rulepack import rules_path

KNOWN = known_patterns(rules_path())


@pytest.mark.parametrize(
    ("command", "runtime", "role", "title", "rank", "dp"),
    [
        ("VLLM::Worker_TP1", "vllm", "worker", "VLLM::Worker_TP1", "TP1", ""),
        ("VLLM::Worker", "vllm", "worker", "VLLM::Worker", "", ""),
        ("VLLM::Worker_DP0_PP1_TP2", "vllm", "worker", "VLLM::Worker_DP0_PP1_TP2", "PP1_TP2", "0"),
        ("VLLM::EngineCore", "vllm", "engine", "VLLM::EngineCore", "", ""),
        ("VLLM::EngineCore_DP3", "vllm", "engine", "VLLM::EngineCore_DP3", "", "3"),
        ("ray::RayWorkerWrapper.execute_method", "vllm", "worker", "ray::RayWorkerWrapper", "", ""),
        ("/opt/v/bin/python /opt/v/bin/vllm serve m", "vllm", "server", "vllm serve", "", ""),
        ("sglang::scheduler_DP1_TP3", "sglang", "worker", "sglang::scheduler_DP1_TP3", "TP3", "1"),
        ("sglang::detokenizer", "sglang", "helper", "sglang::detokenizer", "", ""),
        ("python -m sglang.launch_server", "sglang", "server", "sglang.launch_server", "", ""),
        ("python3 -m mpi4py.futures.server", "trtllm", "worker", "mpi4py.futures.server", "", ""),
        ("/usr/bin/python3 /usr/bin/trtllm-serve m", "trtllm", "server", "trtllm-serve", "", ""),
        (
            "/opt/bin/tritonserver --backend-config=python,shm-region-prefix-name=prefix1_ -x",
            *("triton", "worker", "tritonserver", "1", ""),
        ),
        ("tritonserver --model-repository /m", "triton", "server", "tritonserver", "", ""),
    ],
)
def test_known_processes(
    command: str, runtime: str, role: str, title: str, rank: str, dp: str
) -> None:
    found = identify(command, KNOWN)
    assert found is not None
    assert found[:5] == (runtime, role, title, rank, dp)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "grep VLLM::Worker",
        "vim VLLM::Worker_TP0",
        "sh -c vllm serve m --port 8000",
        "mpirun -n 2 tritonserver --http-port 8000",
        "python -m pytest tests/vllm",
        "/usr/bin/python3 /opt/bin/jupyter-lab",
        "gdb -p 12 python vllm serve",
    ],
)
def test_others_are_no_engines(command: str) -> None:
    assert identify(command, KNOWN) is None


def test_configured_patterns_give_their_own_labels() -> None:
    pattern = r"my-engine (?P<title>decode) --shard (?P<rank>\d+)"
    config = EngineProcessConfig(match=pattern, runtime="own", deployment="chat")
    found = identify("/opt/my-engine decode --shard 3 --fast", configured_patterns([config]))
    assert found == Identity("own", "worker", "decode", "3", "", None, "chat")


@pytest.mark.parametrize(
    ("commands", "port"),
    [
        (["VLLM::Worker_TP0", "vllm serve m --port 8001"], 8001),
        (["vllm serve m --port=8001 --max-model-len 4096"], 8001),
        (["tritonserver --http-port 8000 --metrics-port 8004"], 8004),
        (["x --port 1 --port 2"], 1),
        (["x --report 5", "x --port 99999999"], None),
        ([], None),
    ],
)
def test_ports(commands: list[str], port: int | None) -> None:
    assert port_of(commands) == port


def target(url: str, **labels: str) -> Target:
    return Target(url, Labels(job="j", instance=url, **labels))


def test_targets_of_this_machine_are_known_by_their_port() -> None:
    found = local_targets(
        [
            target("http://localhost:8000/metrics"),
            target("http://10.0.0.9:8001/metrics"),
            target("http://Node1:8002/metrics"),
            target("http://127.0.0.1:8003/a"),
            target("http://node1:8003/b"),
            target("https://localhost/metrics"),
        ],
        frozenset({"localhost", "127.0.0.1", "node1"}),
    )
    assert {port: labels["instance"] for port, labels in found.items()} == {
        8000: "http://localhost:8000/metrics",
        8002: "http://Node1:8002/metrics",
        443: "https://localhost/metrics",
    }


VLLM = Identity("vllm", "worker", "VLLM::Worker_TP0", "TP0", "", 8000)
A, B = Labels(instance="a", runtime="vllm"), Labels(instance="b", runtime="sglang")


@pytest.mark.parametrize(
    ("commands", "targets", "expected"),
    [
        (["VLLM::Worker_TP0", "vllm serve --port 8001"], {8001: A, 8000: B}, A),
        (["VLLM::Worker_TP0", "vllm serve --port 8009"], {8001: A, 8000: B}, None),
        (["VLLM::Worker_TP0", "vllm serve"], {8000: B, 8001: A}, B),
        (["VLLM::Worker_TP0"], {8001: A, 8002: B}, A),
        (["VLLM::Worker_TP0"], {8001: A, 8002: A}, None),
        (["VLLM::Worker_TP0"], {}, None),
    ],
)
def test_whom_a_process_works_for(
    commands: list[str], targets: dict[int, Labels], expected: Labels | None
) -> None:
    assert owner(VLLM, commands, targets) == expected
