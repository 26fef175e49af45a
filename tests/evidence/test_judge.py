"""Which of several findings leads, and what is said of the others."""

from __future__ import annotations

import pytest
from tests.evidence.knowledge import judge

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total"
HANG = "TimeoutError: RPC call to execute_model timed out."
DEAD = "ERROR 01-02 03:04:05 [core.py:1] EngineCore encountered a fatal error."
XID = "[10.000001] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
APPLICATION = "[10.000001] NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=python3, MMU Fault"
STALL = "(EngineCore pid=1) No available shared memory broadcast block found in 60 seconds."
SHUTDOWN = "INFO:     Shutting down"
SCALES = "WARNING NVFP4 Marlin assumes the scales to be >=0"


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([OOM, DEAD], "cuda_oom"),
        ([DEAD, OOM], "cuda_oom"),
        ([OOM, HANG, DEAD], "cuda_oom"),
        ([HANG, DEAD, XID], "gpu_fault"),
        ([HANG, DEAD], "collective_hang"),
        ([STALL, OOM], "cuda_oom"),
        ([DEAD, APPLICATION], "engine_dead"),
        ([SHUTDOWN, DEAD], "benign"),
        ([DEAD, SHUTDOWN], "engine_dead"),
        ([SCALES, DEAD], "engine_dead"),
        ([SCALES], "quality_collapse"),
    ],
)
def test_causes_lead_whatever_the_order(lines: list[str], verdict: str) -> None:
    assert judge("\n".join(lines)).verdict == verdict


def test_what_follows_is_told_as_following_and_lends_its_fields() -> None:
    found = judge("\n".join([HANG, DEAD, XID]))
    assert dict(found.excluded) == {
        "collective_hang": "follows from gpu_fault: a worker did not answer the engine in time",
        "engine_dead": "follows from gpu_fault: the engine process ended without being asked to",
    }
    assert found.fields["rpc"] == "execute_model"
    assert found.fields["xid"] == 79
    assert found.derived["explains"] == "collective_hang/engine_dead"


def test_a_guess_does_not_explain_what_is_certain() -> None:
    found = judge("\n".join([STALL, DEAD]))
    assert found.verdict == "engine_dead"
    assert dict(found.excluded)["collective_hang"].startswith("less certain")


def test_evidence_names_source_line_and_text() -> None:
    found = judge("\n".join(["noise", OOM]), name="engine.log")
    (evidence,) = found.evidence
    assert (evidence.source, evidence.line) == ("engine.log", 2)
    assert evidence.text.startswith("torch.OutOfMemoryError")


def test_fields_of_another_gpu_are_not_mixed_in() -> None:
    other = "[9.000001] NVRM: Xid (PCI:0000:aa:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"  # noqa: E501
    own = "[10.000009] NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"  # noqa: E501
    found = judge("\n".join([other, XID, own]))
    assert found.fields["pci_bus_id"] == "0000:1b:00"
    assert found.fields["recovery_action"] == "Node Reboot Required"


def test_incidents_are_counted_by_the_pauses_between_them() -> None:
    line = "INFO 01-02 {} RPC call to execute_model timed out."
    burst = [line.format(f"10:00:0{n}") for n in range(5)]
    assert judge("\n".join(burst)).derived["incidents"] == 1
    later = [*burst, line.format("11:00:00")]
    assert judge("\n".join(later)).derived["incidents"] == 2


def test_what_stands_once_between_thousands_is_not_lost() -> None:
    def lines(xid: int, count: int) -> list[str]:
        return [f"[{xid}.{n:06d}] NVRM: Xid (PCI:0000:1b:00): {xid}, pid=7" for n in range(count)]

    found = judge("\n".join([*lines(45, 300), *lines(79, 1), *lines(94, 300), *lines(45, 300)]))
    assert (found.verdict, found.fields["xid"]) == ("gpu_fault", 79)
    found = judge("\n".join([*lines(94, 300), *lines(79, 1), *lines(94, 300)]))
    assert found.fields["xid"] == 79


def test_nothing_found_is_no_proof() -> None:
    found = judge("hello")
    assert (found.verdict, found.confidence, found.is_finding) == ("benign", "suspect", False)
    assert "no proof" in found.advice
