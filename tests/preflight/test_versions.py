"""Versions against each other: engines, containers, CUDA, driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.preflight.test_engine_dir import write_engine

from enginewatch.preflight.artifacts import engine_dir
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.judge import judge, shipped_preflight
from enginewatch.preflight.pins import families, image_of, pins, same
from enginewatch.preflight.readers.gpus import Gpus, declared_gpus
from enginewatch.preflight.readers.versions import declared_version, read_freeze
from enginewatch.preflight.readers.workload import Workload
from enginewatch.preflight.versions import samples

RULES = shipped_preflight().only({"versions"})


def findings(facts: Facts) -> list[Finding]:
    return list(judge(samples(facts), RULES).findings)


def codes(facts: Facts) -> set[str]:
    return {finding.code for finding in findings(facts)}


def runtime(*texts: str) -> Facts:
    return Facts(versions=tuple(declared_version(text) for text in texts))


def image(*references: str) -> Facts:
    return Facts(
        workloads=tuple(
            Workload(name=f"c{n}", kind="pod", image=reference, where=f"deploy.yml:{n + 1}")
            for n, reference in enumerate(references)
        )
    )


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("10.14.1.48", "10.14.1.48.post1", True),
        ("10.14", "10.14.1.48", True),
        ("10.13.3.9", "10.14.1.48", False),
        ("1.2.0", "1.2.0rc2", False),
        ("1.2.0rc2", "1.2.0rc2", True),
        ("v0.19.0", "0.19.0", True),
        ("2.9.0+cu130", "2.9.0", True),
        ("", "1.0", False),
        ("1.2.1", "1.2.10", False),
    ],
)
def test_versions_are_compared_as_far_as_both_are_told(one: str, other: str, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_an_engine_against_declared_versions(tmp_path: Path) -> None:
    engine = engine_dir(str(write_engine(tmp_path)))  # TensorRT 10.6.0.26, TensorRT-LLM 1.2.1
    assert codes(engine + runtime("tensorrt=10.6.0.26", "tensorrt-llm=1.2.1")) == set()
    assert codes(engine + runtime("tensorrt=10.14.1.48", "tensorrt-llm=1.2.1")) == {
        "EW-VERSION-001"
    }
    [finding] = findings(engine + runtime("tensorrt=10.6.0", "tensorrt-llm=1.1.0"))
    assert finding.fields["of"] == "TensorRT-LLM"
    assert finding.evidence[0].source.endswith("config.json")
    assert finding.fails


def test_an_engine_without_a_runtime_to_compare_with_is_unknown(tmp_path: Path) -> None:
    found = findings(engine_dir(str(write_engine(tmp_path))))
    assert [each.code for each in found] == ["EW-VERSION-002"] * 2
    assert all(each.unknown for each in found)


def test_the_first_release_without_the_engine_backend_warns(tmp_path: Path) -> None:
    engine = engine_dir(str(write_engine(tmp_path)))
    assert "EW-VERSION-007" in codes(engine + runtime("tensorrt-llm=1.3.0rc25"))


TRTLLM = "nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3"
VLLM = "nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3"


def test_an_image_tells_the_versions_of_its_runtime(tmp_path: Path) -> None:
    engine = engine_dir(str(write_engine(tmp_path)))
    [finding] = findings(engine + image(TRTLLM))
    assert finding.code == "EW-VERSION-001"
    assert (finding.fields["runs"], finding.fields["at"]) == ("10.14.1.48", "deploy.yml:1")


def test_one_month_s_tag_means_other_pins_in_another_image() -> None:
    assert pins("tritonserver-trtllm", "26.07")["cuda"] == "13.1.0.036"
    assert pins("tritonserver-vllm", "26.07")["cuda"] == "13.3"
    assert pins("tritonserver-vllm", "26.06") == {}
    assert set(families("26.07")) == {"tritonserver-trtllm", "tritonserver-vllm"}
    [finding] = findings(image(TRTLLM) + runtime("cuda=13.3"))
    assert finding.code == "EW-VERSION-003"
    assert finding.fields["elsewhere"] == "tritonserver-vllm"
    assert "tritonserver-vllm" in finding.summary


def test_two_images_of_one_month() -> None:
    found = findings(image(TRTLLM, VLLM))
    assert {finding.code for finding in found} == {"EW-VERSION-005"}
    assert {finding.fields["name"] for finding in found} == {"cuda", "driver"}


@pytest.mark.parametrize(
    ("reference", "versions"),
    [
        ("vllm/vllm-openai:v0.19.0", {"vllm": "0.19.0"}),
        ("registry:5000/vllm/vllm-openai:v0.19.0-x86", {"vllm": "0.19.0"}),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc2", {"tensorrt-llm": "1.2.0rc2"}),
        ("lmsysorg/sglang:v0.5.3-cu129-amd64", {"sglang": "0.5.3"}),
        ("vllm/vllm-openai:latest", None),
        ("busybox", None),
    ],
)
def test_what_the_name_of_an_image_tells(reference: str, versions: dict[str, str] | None) -> None:
    found = image_of(reference)
    assert (found.versions if found else None) == versions


def host(driver: str) -> Facts:
    return Facts(gpus=(Gpus("NVIDIA H200", 8, "NVML", (9, 0), 150_000_000_000, driver=driver),))


def test_a_driver_older_than_the_image() -> None:
    assert codes(image(TRTLLM) + host("590.44.01")) == set()
    assert codes(image(TRTLLM) + host("580.95.05")) == {"EW-VERSION-004"}
    assert codes(image(TRTLLM) + host("550.54.14")) == {"EW-VERSION-004", "EW-VERSION-007"}


def test_what_cuda_asks_of_the_driver() -> None:
    assert codes(runtime("cuda=12.4", "driver=525.60.13")) == set()
    [finding] = findings(runtime("cuda=12.4", "driver=470.57"))
    assert (finding.code, finding.fails) == ("EW-VERSION-006", True)
    assert codes(runtime("cuda=13.1", "driver=570.124.06")) == {"EW-VERSION-007"}


def test_what_a_gpu_asks_of_tensorrt() -> None:
    gb300 = Facts(gpus=(declared_gpus("4xGB300"),))
    assert codes(gb300 + runtime("tensorrt=10.11.0.33")) == {"EW-VERSION-006"}
    assert codes(gb300 + runtime("tensorrt=10.14.1.48", "nvidia-nccl-cu13=2.27.7")) == set()


def frozen(*lines: str) -> Facts:
    return Facts(versions=tuple(read_freeze("\n".join(lines), "freeze.txt")))


def test_two_cuda_majors_beside_each_other() -> None:
    assert codes(frozen("torch==2.9.0+cu128", "nvidia-nccl-cu13==2.27.7")) == {"EW-VERSION-008"}
    assert codes(frozen("torch==2.9.0+cu130", "nvidia-nccl-cu13==2.27.7")) == set()
    assert codes(frozen("nvidia-cublas-cu12==12.8.4.1", "nvidia-nccl-cu12==2.27.5")) == set()


@pytest.mark.parametrize(
    ("torch", "gpu", "expected"),
    [
        ("torch==2.5.0+cu124", "B200", {"EW-VERSION-009"}),
        ("torch==2.7.0+cu128", "B200", set()),
        ("torch==2.7.0+cu128", "B300", {"EW-VERSION-009"}),
        ("torch==2.5.0+cu124", "H200", set()),
    ],
)
def test_a_toolkit_that_does_not_know_the_gpu(torch: str, gpu: str, expected: set[str]) -> None:
    assert codes(frozen(torch) + Facts(gpus=(declared_gpus(gpu),))) == expected


def test_what_is_installed_here_says_nothing_of_a_container() -> None:
    here = Facts(versions=(declared_version("cuda=12.4")._replace(where="installed here"),))
    assert codes(here + image(TRTLLM)) == set()
