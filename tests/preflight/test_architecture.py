"""Engines, formats and kernels against GPUs: from files to findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.preflight.planforge import forge, form, record_of
from tests.preflight.test_engine_dir import write_engine

from enginewatch.preflight.architecture import samples
from enginewatch.preflight.artifacts import engine_dir
from enginewatch.preflight.capability import Capability
from enginewatch.preflight.checks import samples as all_samples
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.formats import Support, format_of, shipped_formats
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.judge import judge, shipped_preflight
from enginewatch.preflight.readers.checkpoint import read_checkpoint
from enginewatch.preflight.readers.gpu_code import GpuCode
from enginewatch.preflight.readers.gpu_target import parse_target
from enginewatch.preflight.readers.gpus import declared_gpus
from enginewatch.preflight.readers.versions import declared_version
from enginewatch.rulepack import rules_path

RULES = shipped_preflight().only({"architecture"})


def findings(facts: Facts) -> list[Finding]:
    return list(judge(samples(facts), RULES).findings)


def codes(facts: Facts) -> set[str]:
    return {finding.code for finding in findings(facts)}


def gpus(*texts: str) -> Facts:
    return Facts(gpus=tuple(declared_gpus(text) for text in texts))


@pytest.mark.parametrize(
    ("built", "target", "expected"),
    [
        ("H100 SXM", "2xH100", set()),
        ("H100 SXM", "2xNVIDIA H100 80GB HBM3", set()),
        ("H100 SXM", "2xB200", {"EW-ARCH-001"}),
        ("H100 SXM", "2xH200", {"EW-ARCH-002"}),
        ("A10", "2xL4", {"EW-ARCH-001"}),
        ("B200", "2xB300", {"EW-ARCH-001"}),
        ("T4", "2xRTX 2080 Ti", {"EW-ARCH-002"}),
    ],
)
def test_an_engine_against_the_gpus(
    tmp_path: Path, built: str, target: str, expected: set[str]
) -> None:
    engine = engine_dir(str(write_engine(tmp_path, model=built)))
    assert codes(engine + gpus(target)) - {"EW-ARCH-020"} == expected


def test_a_mixed_fleet_is_judged_gpu_by_gpu(tmp_path: Path) -> None:
    engine = engine_dir(str(write_engine(tmp_path, model="H200")))
    [finding] = [f for f in findings(engine + gpus("8xH200", "4xB200")) if f.fails]
    assert finding.code == "EW-ARCH-001"
    assert finding.fields["gpu"] == "B200"
    assert finding.fields["built_for"] == "9.0"
    assert "1 more like it" in finding.evidence[0].text


@pytest.mark.parametrize("config", [None, "{}", '{"pretrained_config": {}, "build_config": {}}'])
def test_a_gap_between_rank_files_needs_no_configuration(
    tmp_path: Path, config: str | None
) -> None:
    folder = write_engine(tmp_path, ranks=4)
    (folder / "rank1.engine").unlink()
    (folder / "config.json").unlink()
    if config is not None:
        (folder / "config.json").write_text(config)
    [finding] = [each for each in findings(engine_dir(str(folder))) if each.fails]
    assert (finding.code, finding.fields["missing"]) == ("EW-ARCH-005", "1")


def test_a_hint_of_the_planner_warns_and_never_clears(tmp_path: Path) -> None:
    hint = {"auto_parallel_config": {"cluster_key": "H100-SXM"}}
    folder = write_engine(tmp_path, model="A100 80GB")
    config = json.loads((folder / "config.json").read_text())
    config["build_config"] |= hint
    (folder / "config.json").write_text(json.dumps(config))
    engine = engine_dir(str(folder))
    assert codes(engine + gpus("2xH100")) == {"EW-ARCH-001"}
    hinted = judge(all_samples(engine + gpus("2xA100")), shipped_preflight()).findings
    assert "EW-ARCH-011" in {finding.code for finding in hinted}


def test_nothing_is_cleared_without_a_device_record(tmp_path: Path) -> None:
    folder = write_engine(tmp_path)
    plan = forge(form("C4", lead=1), record_of("H100 SXM"))
    for rank in range(2):
        (folder / f"rank{rank}.engine").write_bytes(plan)
    found = [f for f in findings(engine_dir(str(folder)) + gpus("2xH100")) if f.unknown]
    assert {finding.code for finding in found} == {"EW-ARCH-003"}
    assert "compatibility value" in found[0].summary


def test_a_truncated_rank_is_refused(tmp_path: Path) -> None:
    folder = write_engine(tmp_path)
    path = folder / "rank1.engine"
    path.write_bytes(path.read_bytes()[:-100])
    [finding] = [f for f in findings(engine_dir(str(folder)) + gpus("2xH100")) if f.fails]
    assert finding.code == "EW-ARCH-004"
    assert "truncated" in finding.summary


@pytest.mark.parametrize(("tp", "ranks"), [(4, 2), (2, 4)])
def test_rank_files_against_the_parallel_size(tmp_path: Path, tp: int, ranks: int) -> None:
    engine = engine_dir(str(write_engine(tmp_path, ranks=ranks, tp=tp)))
    [finding] = [f for f in findings(engine + gpus("8xH100")) if f.fails]
    assert finding.code == "EW-ARCH-005"
    assert finding.fields["missing" if tp > ranks else "extra"] == "2 3"


def test_ranks_of_different_builds(tmp_path: Path) -> None:
    folder = write_engine(tmp_path)
    (folder / "rank1.engine").write_bytes(forge(form("D"), record_of("H100 SXM")))
    assert "EW-ARCH-006" in codes(engine_dir(str(folder)) + gpus("2xH100"))


def test_plain_plans_of_one_folder_need_not_be_of_one_build(tmp_path: Path) -> None:
    (tmp_path / "detector.plan").write_bytes(forge(form("C3"), record_of("T4")))
    (tmp_path / "classifier.plan").write_bytes(forge(form("C4"), record_of("T4")))
    assert codes(engine_dir(str(tmp_path)) + gpus("T4")) == set()


def test_an_engine_of_more_ranks_than_gpus(tmp_path: Path) -> None:
    facts = engine_dir(str(write_engine(tmp_path, ranks=4, tp=4))) + gpus("2xH100")
    found = judge(all_samples(facts), shipped_preflight()).findings
    assert {f.code for f in found if f.fails} == {"EW-ARCH-010"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("trtllm-serve {engine} --tp_size 2", set()),
        ("trtllm-serve {engine} --tp_size 4", {"tensor parallel"}),
        ("trtllm-serve {engine} --tp_size 2 --pp_size 2", {"pipeline parallel"}),
        ("python3 launch_triton_server.py --world_size=4 --model_repo=models", {"ranks"}),
        ("mpirun -n 2 tritonserver --model-repository=models", set()),
    ],
)
def test_the_size_that_a_command_starts(tmp_path: Path, command: str, expected: set[str]) -> None:
    engine = engine_dir(str(write_engine(tmp_path)))
    started = gather(Inputs({"--command": (command.format(engine=tmp_path),)}))
    found = findings(engine + gpus("8xH100") + started)
    assert {each.fields["of"] for each in found if each.code == "EW-ARCH-009"} == expected


def test_an_unknown_gpu_and_none_at_all_are_unknown(tmp_path: Path) -> None:
    engine = engine_dir(str(write_engine(tmp_path)))
    assert codes(engine + gpus("2xQuantumGPU")) == {"EW-ARCH-007"}
    assert "EW-ARCH-008" in codes(engine)


def checkpoint(folder: Path, quantization: dict[str, object] | None, **more: object) -> Facts:
    config = {"quantization_config": quantization} if quantization else {}
    (folder / "config.json").write_text(json.dumps(config | more))
    return Facts(checkpoints=(read_checkpoint(folder),))


NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}


@pytest.mark.parametrize(
    ("written", "runtime", "gpu", "expected"),
    [
        (NVFP4, "tensorrt-llm=1.2.1", "H200", {"EW-ARCH-020"}),
        (NVFP4, "vllm=0.19.0", "H200", {"EW-ARCH-022"}),
        (NVFP4, "vllm=0.19.0", "B200", set()),
        (NVFP4, "tensorrt-llm=1.2.1", "RTX PRO 6000", {"EW-ARCH-021"}),
        ({"quant_method": "fp8"}, "tensorrt-llm=1.2.1", "A100", {"EW-ARCH-020"}),
        ({"quant_method": "fp8"}, "vllm=0.19.0", "A100", {"EW-ARCH-022"}),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            "sglang=0.5.3",
            "L40S",
            {"EW-ARCH-021"},
        ),
        ({"quant_method": "awq", "bits": 4}, "vllm=0.19.0", "T4", {"EW-ARCH-022"}),
        ({"quant_method": "mxfp4"}, "tensorrt-llm=1.2.1", "H100", {"EW-ARCH-021"}),
        ({"quant_method": "novel"}, "vllm=0.19.0", "H100", {"EW-ARCH-023"}),
    ],
)
def test_a_format_against_gpu_and_runtime(
    tmp_path: Path, written: dict[str, object], runtime: str, gpu: str, expected: set[str]
) -> None:
    facts = checkpoint(tmp_path, written) + gpus(gpu)
    assert codes(facts + Facts(versions=(declared_version(runtime),))) == expected


def test_bfloat16_on_a_gpu_without_it(tmp_path: Path) -> None:
    facts = checkpoint(tmp_path, None, torch_dtype="bfloat16") + gpus("T4")
    assert codes(facts) == {"EW-ARCH-024"}


def test_without_a_runtime_the_answer_is_told_where_it_does_not_depend_on_it(
    tmp_path: Path,
) -> None:
    assert codes(checkpoint(tmp_path, NVFP4) + gpus("B200")) == set()
    assert codes(checkpoint(tmp_path, NVFP4) + gpus("H200")) == {"EW-ARCH-025"}
    assert codes(checkpoint(tmp_path, NVFP4) + gpus("T4")) == {"EW-ARCH-024"}


def test_a_format_of_a_flag(tmp_path: Path) -> None:
    command = "vllm serve meta-llama/Llama-3.1-8B-Instruct --quantization modelopt_fp4"
    facts = gather(Inputs({"--command": (command,), "--gpus": ("H200",)}))
    assert "EW-ARCH-022" in codes(facts)


def code(where: str, *targets: str) -> GpuCode:
    return GpuCode(where, {parse_target(each): 1 for each in targets})


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("H200", set()),
        ("L4", {"EW-ARCH-031"}),
        ("B200", {"EW-ARCH-032", "EW-ARCH-031"}),
        ("T4", {"EW-ARCH-030"}),
    ],
)
def test_kernels_of_a_package(gpu: str, expected: set[str]) -> None:
    libraries = (
        code("ops.whl!a.so", "sm_80", "sm_90a", "compute_90"),
        code("ops.whl!b.so", "sm_90"),
    )
    assert codes(Facts(libraries=libraries) + gpus(gpu)) == expected


def test_a_library_for_an_older_toolkit_beside_one_for_the_gpu() -> None:
    libraries = (
        code("ops.whl!cu118.so", "sm_80", "compute_90"),
        code("ops.whl!cu128.so", "sm_100"),
    )
    found = findings(Facts(libraries=libraries) + gpus("B200"))
    assert [(each.code, str(each.severity)) for each in found] == [("EW-ARCH-033", "info")]


def test_code_of_an_unknown_variant_is_neither_good_nor_bad() -> None:
    target = parse_target("sm_100")._replace(variant="?")
    facts = Facts(libraries=(GpuCode("a.so", {target: 1}),)) + gpus("B300")
    assert codes(facts) == set()


def test_every_format_is_told_for_every_runtime() -> None:
    rows = {(row.name, row.runtime) for row in shipped_formats()}
    for name, _ in rows:
        if name not in ("bitsandbytes", "W4A8"):
            assert {runtime for other, runtime in rows if other == name} == {
                "trtllm",
                "vllm",
                "sglang",
            }, name


def test_the_rules_of_diagnose_say_the_same_of_formats() -> None:
    """There they are constants, because a configuration alone names no runtime."""
    text = (rules_path() / "diagnose" / "configurations.yml").read_text()
    for written, least in (
        ("NVFP4", 10.0),
        ("MXFP8", 10.0),
        ("FP8_BLOCK_SCALES", 9.0),
        ("FP8", 8.9),
    ):
        assert (
            f"'{least:g} * max(enginewatch_checkpoint_format_info{{format=\"{written}\"}})'" in text
        )
        row = format_of(written, "trtllm")
        native = [
            capability
            for capability in (
                Capability(8, 0),
                Capability(8, 9),
                Capability(9, 0),
                Capability(10, 0),
            )
            if row.support(capability) is Support.NATIVE
        ]
        assert native[0] == Capability(*divmod(round(least * 10), 10))
