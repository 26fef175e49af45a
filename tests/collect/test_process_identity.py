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

TRITON_RANK = (
    "/opt/tritonserver/bin/tritonserver --model-repository=/m --grpc-port=8001 --http-port=8000 "
    "--metrics-port=8002 --model-control-mode=explicit --load-model=tensorrt_llm "
    "--disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix12_"
)
STUB = (
    "/opt/tritonserver/backends/python/triton_python_backend_stub /m/p/1/model.py "
    "triton_python_backend_shm_region_1 1048576 1048576 7 /opt/tritonserver/backends/python 336 p_0"
)


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
        # SGLang, from the oldest to the newest (managers/scheduler.py).
        ("sglang::scheduler", "sglang", "worker", "sglang::scheduler", "", ""),
        ("sglang::scheduler_TP0", "sglang", "worker", "sglang::scheduler_TP0", "TP0", ""),
        ("sglang::scheduler_DP1_TP3", "sglang", "worker", "sglang::scheduler_DP1_TP3", "TP3", "1"),
        (
            "sglang::scheduler_TP3_PP1",
            "sglang",
            "worker",
            "sglang::scheduler_TP3_PP1",
            "TP3_PP1",
            "",
        ),
        (
            "sglang::scheduler_PP1_TP3",
            "sglang",
            "worker",
            "sglang::scheduler_PP1_TP3",
            "PP1_TP3",
            "",
        ),
        (
            "sglang::scheduler_DP0_TP12_EP12",
            *("sglang", "worker", "sglang::scheduler_DP0_TP12_EP12", "TP12_EP12", "0"),
        ),
        (
            "sglang::scheduler_DP2_PP1_ATTN_CP0_MOE_DP1_TP3_EP2",
            *("sglang", "worker", "sglang::scheduler_DP2_PP1_ATTN_CP0_MOE_DP1_TP3_EP2"),
            *("PP1_ATTN_CP0_MOE_DP1_TP3_EP2", "2"),
        ),
        (
            "ray::SchedulerActor.run_event_loop",
            *("sglang", "worker", "ray::SchedulerActor", "", ""),
        ),
        ("sglang::detokenizer", "sglang", "helper", "sglang::detokenizer", "", ""),
        ("sglang::detokenizer_1", "sglang", "helper", "sglang::detokenizer_1", "1", ""),
        (
            "sglang::detokenizer_router",
            *("sglang", "helper", "sglang::detokenizer_router", "", ""),
        ),
        (
            "sglang::data_parallel_controller",
            *("sglang", "helper", "sglang::data_parallel_controller", "", ""),
        ),
        (
            "sglang::tokenizer_worker:4711",
            *("sglang", "server", "sglang::tokenizer_worker", "", ""),
        ),
        (
            "sglang::http_server/multi_tokenizer_manager:4711",
            *("sglang", "server", "sglang::http_server/multi_tokenizer_manager", "", ""),
        ),
        ("python -m sglang.launch_server", "sglang", "server", "sglang.launch_server", "", ""),
        (
            "/opt/venv/bin/python3 -X faulthandler -m sglang.launch_server --tp 2",
            *("sglang", "server", "sglang.launch_server", "", ""),
        ),
        (
            "/usr/bin/python3 /usr/local/bin/sglang serve m",
            "sglang",
            "server",
            "sglang serve",
            "",
            "",
        ),
        # TensorRT-LLM
        ("python3 -m mpi4py.futures.server", "trtllm", "worker", "mpi4py.futures.server", "", ""),
        (
            "/usr/bin/python3 -R -Wignore -Xfaulthandler -m mpi4py.futures.server",
            *("trtllm", "worker", "mpi4py.futures.server", "", ""),
        ),
        (
            "python3 -R -c import os\nimport mpi4py /tmp/flashinfer -m mpi4py.futures.server",
            *("trtllm", "worker", "mpi4py.futures.server", "", ""),
        ),
        (
            "python3 -m tensorrt_llm.llmapi.mgmn_leader_node",
            *("trtllm", "worker", "tensorrt_llm.llmapi.mgmn_leader_node", "", ""),
        ),
        (
            "python3 -m tensorrt_llm.llmapi.mgmn_worker_node",
            *("trtllm", "worker", "tensorrt_llm.llmapi.mgmn_worker_node", "", ""),
        ),
        (
            "python3 -m tensorrt_llm.llmapi.mgmn_leader_node --action stop",
            *("trtllm", "helper", "tensorrt_llm.llmapi.mgmn_leader_node --action", "", ""),
        ),
        (
            "/usr/local/lib/python3.12/dist-packages/tensorrt_llm/bin/executorWorker",
            *("trtllm", "worker", "executorWorker", "", ""),
        ),
        ("/usr/bin/python3 /usr/bin/trtllm-serve m", "trtllm", "server", "trtllm-serve", "", ""),
        (
            "/usr/bin/python3 /usr/local/bin/trtllm-serve serve m --tp_size 2",
            *("trtllm", "server", "trtllm-serve", "", ""),
        ),
        (
            "/usr/bin/python3 /usr/local/bin/trtllm-serve disaggregated -c disagg.yaml",
            *("trtllm", "helper", "trtllm-serve disaggregated", "", ""),
        ),
        (
            "python3 /usr/local/bin/trtllm-serve disaggregated_mpi_worker -c disagg.yaml",
            *("trtllm", "worker", "trtllm-serve disaggregated_mpi_worker", "", ""),
        ),
        # Triton
        (
            "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker",
            *("triton", "worker", "trtllmExecutorWorker", "", ""),
        ),
        (
            "/opt/bin/tritonserver --backend-config=python,shm-region-prefix-name=prefix1_ -x",
            *("triton", "worker", "tritonserver", "1", ""),
        ),
        (TRITON_RANK, "triton", "worker", "tritonserver", "12", ""),
        (STUB, "triton", "helper", "triton_python_backend_stub", "", ""),
        # NIM 1
        (
            "/opt/nim/llm/.venv/bin/python3 -m nim_llm_sdk.entrypoints.openai.api_server",
            *("nim", "server", "nim_llm_sdk.entrypoints.openai.api_server", "", ""),
        ),
        (
            "python3 -m vllm_nvext.entrypoints.openai.api_server --max-model-len 16000",
            *("nim", "server", "vllm_nvext.entrypoints.openai.api_server", "", ""),
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
        "/bin/bash /usr/local/bin/trtllm-llmapi-launch trtllm-serve m",
        "mpirun -n 2 trtllm-llmapi-launch trtllm-serve m",
        "python3 -m sglang_router.launch_server --worker-urls http://a:1",
        "pkill -f mpi4py.futures.server",
        "tail -f executorWorker",
        f"bash -c  exec {STUB}",
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
