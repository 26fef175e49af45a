"""The command as a user runs it: exit codes, JSON, a page for three in the morning, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from enginewatch.cli.diagnose import diagnose
from enginewatch.evidence.errors import EvidenceError

OOM = (
    "INFO 01-02 03:04:05 [x.py:1] started with --api-key topsecret9\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total"
    " capacity of 79.10 GiB of which 610.50 MiB is free. api_key=topsecret9\n"
)


def run(*arguments: str, given: str | None = None) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(diagnose)
    return CliRunner().invoke(app, list(arguments), input=given)


def test_a_finding_exits_1_and_says_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(OOM)
    result = run(str(log))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "cuda_oom  (fatal, definite)"
    assert any(line.startswith("Next: ") for line in lines)
    assert f"{log}:2: torch.OutOfMemoryError" in result.stdout
    assert "topsecret9" not in result.stdout


def test_nothing_wrong_exits_0(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("INFO:     Application startup complete.\n")
    assert run(str(log)).exit_code == 0


def test_json_has_the_keys_of_a_verdict(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(OOM)
    found = json.loads(run(str(log), "--json").stdout)
    assert {"verdict", "severity", "confidence", "fields", "evidence", "advice"} <= found.keys()
    assert found["fields"]["tried"] == "2.00 GiB"
    assert found["fields"]["tried_mib"] == found["derived"]["tried_mib"] == 2048.0
    (evidence,) = found["evidence"]
    assert (evidence["source"], evidence["line"]) == (str(log), 2)


def test_several_inputs_are_one_incident(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text("TimeoutError: RPC call to execute_model timed out.\n")
    kernel = "[9.000001] NVRM: Xid (PCI:0000:1b:00): 119, pid=7, Timeout after 6s\n"
    (tmp_path / "dmesg").write_text(kernel)
    found = json.loads(run(str(tmp_path), "--json").stdout)
    assert found["verdict"] == "gpu_fault"
    assert [excluded["verdict"] for excluded in found["excluded"]] == ["collective_hang"]


def test_the_context_says_what_the_input_does_not(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"version": "0.17.0", "pretrained_config": {}, "build_config": {}}')
    context = tmp_path / "context.yml"
    context.write_text("runtime_trtllm_version: 1.1.0\n")
    assert run(str(config)).exit_code == 0
    result = run(str(config), "--json", "--context", str(context))
    assert result.exit_code == 1
    assert json.loads(result.stdout)["verdict"] == "engine_mismatch"


@pytest.mark.parametrize(
    ("context", "message"),
    [("a: [", "neither YAML nor JSON"), ("- a", "is not a mapping"), (None, "No such file")],
)
def test_a_bad_context_is_told(tmp_path: Path, context: str | None, message: str) -> None:
    log, path = tmp_path / "a.log", tmp_path / "context.yml"
    log.write_text("x")
    if context is not None:
        path.write_text(context)
    result = run(str(log), "--context", str(path))
    assert isinstance(result.exception, EvidenceError)
    assert message in str(result.exception)


def test_a_path_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = run(str(tmp_path / "nowhere"))
    assert isinstance(result.exception, EvidenceError)


@pytest.mark.parametrize(
    ("ranks", "code", "verdict"), [(3, 1, "engine_mismatch"), (4, 0, "benign")]
)
def test_a_folder_without_a_plan_for_each_rank_is_incomplete(
    tmp_path: Path, ranks: int, code: int, verdict: str
) -> None:
    mapping = {"world_size": 4, "tp_size": 4, "pp_size": 1}
    config = {"version": "1.1.0", "pretrained_config": {"mapping": mapping}, "build_config": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for rank in range(ranks):
        (tmp_path / f"rank{rank}.engine").write_bytes(b"ftrt\x00\x00")
    done = run(str(tmp_path), "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["verdict"]) == (code, verdict)
    if code:
        assert (told["derived"]["rank_files"], told["derived"]["needs_gpus"]) == (3, 4)


TIMED_OUT = (
    "[rank{0}]:[E1211 10:22:33.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum=118, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
    " Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
)
INTRODUCED = (
    "(Worker pid=1{0}) INFO 12-11 10:01:15 [parallel_state.py:1906] world_size=4 rank={0}"
    " local_rank={0} distributed_init_method=file:///tmp/x backend=nccl\n"
)


@pytest.mark.parametrize(
    ("introduced", "timed_out", "silent"),
    [("0123", "013", [2]), ("0123", "0123", None), ("", "013", None), ("01", "1", [0])],
)
def test_the_rank_that_says_nothing_of_a_timeout_is_named(
    tmp_path: Path, introduced: str, timed_out: str, silent: list[int] | None
) -> None:
    log = tmp_path / "engine.log"
    log.write_text(
        "".join(INTRODUCED.format(n) for n in introduced)
        + "".join(TIMED_OUT.format(n) for n in timed_out)
    )
    told = json.loads(run(str(log), "--json").stdout)
    assert told["verdict"] == "collective_hang"
    assert told["derived"]["silent_ranks"] == silent


def test_lines_that_ray_folded_hide_who_spoke(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    folded = TIMED_OUT.format(0).rstrip() + " [repeated 3x across cluster]\n"
    log.write_text("".join(INTRODUCED.format(n) for n in "0123") + folded)
    assert json.loads(run(str(log), "--json").stdout)["derived"]["silent_ranks"] is None
