"""TensorRT plans: every layout is read, and no damage gives another answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.preflight.planforge import (
    FORMS_OF_PLANS,
    Form,
    flat,
    forge,
    form,
    record_of,
    record_of_gpu,
    with_prefix,
)

from enginewatch.preflight.capability import Capability
from enginewatch.preflight.devices import Device, shipped_devices
from enginewatch.preflight.readers.plan import HEAD, Kind, Plan, parse_plan, plan_offset, read_plan

SHARED = Path(__file__).parents[3] / "shared" / "plans"
DEVICES = shipped_devices()
MODELS = ("H100 SXM", "T4", "RTX 4090", "A100 80GB", "B200", "RTX PRO 6000", "V100 16GB", "L40S")


def _name(each: Form) -> str:
    return f"{each.name}-{each.container}-{'.'.join(map(str, each.version))}"


def _agrees(changed: Plan, right: Plan) -> bool:
    """Whether an answer is the right one, or less of it."""
    device = changed.device
    return (
        (not changed.tensorrt or f"{right.tensorrt}.".startswith(f"{changed.tensorrt}."))
        and (device is None or device.capability == right.device.capability)
        and changed.multiprocessors in (None, right.multiprocessors)
        and (not changed.models or not set(changed.models).isdisjoint(right.models))
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", FORMS_OF_PLANS, ids=_name)
def test_each_layout_tells_version_capability_and_sms(layout: Form, model: str) -> None:
    plan = parse_plan(*_sized(forge(layout, record_of(model))))
    gpu = DEVICES.named(model)
    assert plan.kind is Kind.ENGINE
    assert plan.problem == ""
    assert plan.tensorrt == ".".join(map(str, layout.version))
    assert plan.device is not None
    assert plan.device.capability == gpu.capability
    assert plan.multiprocessors == gpu.multiprocessors
    assert gpu.name in plan.models
    assert plan.layout == layout.name
    assert plan.checked == layout.container.startswith("crc")


def _sized(plan: bytes) -> tuple[bytes, int]:
    return plan[:HEAD], len(plan)


@pytest.mark.parametrize("layout", FORMS_OF_PLANS, ids=_name)
def test_no_changed_bit_gives_another_answer(layout: Form) -> None:
    whole = forge(layout, record_of("A100 80GB"), filling=24)
    right = parse_plan(whole, len(whole))
    for at in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            found = parse_plan(bytes(changed), len(whole))
            assert _agrees(found, right), (at, bit, found)


@pytest.mark.parametrize("layout", FORMS_OF_PLANS[:4], ids=_name)
def test_without_room_for_the_checksum_the_record_s_own_redundancy_holds(layout: Form) -> None:
    whole = forge(layout, record_of("V100 32GB"), filling=200)
    head, size = whole[:300], len(whole)
    right = parse_plan(head, size)
    assert right.device is not None
    assert not right.checked
    for at in range(len(head)):
        for value in (head[at] ^ 1, head[at] ^ 0x10, 0, 0xFF, (head[at] + 1) & 0xFF):
            found = parse_plan(head[:at] + bytes([value]) + head[at + 1 :], size)
            assert _agrees(found, right), (at, value, found)


@pytest.mark.parametrize("layout", FORMS_OF_PLANS, ids=_name)
def test_cut_anywhere_it_is_damaged_or_unknown(layout: Form) -> None:
    whole = forge(layout, record_of("H100 SXM"))
    for length in range(len(whole)):
        cut = parse_plan(whole[:length], length)
        assert cut.kind in (Kind.DAMAGED, Kind.UNKNOWN), length
        assert cut.device is None
        assert cut.tensorrt == ""
        assert cut.problem


@pytest.mark.parametrize("gpu", DEVICES.gpus, ids=lambda gpu: gpu.name)
def test_no_byte_of_the_capability_makes_another_that_is_believed(gpu: object) -> None:
    """Over every model of the table, and all 255 other values of each byte of both numbers."""
    record = record_of_gpu(gpu)
    for member in ("major", "minor"):
        for value in range(256):
            if value != record[member]:
                changed = record | {member: value}
                device = Device(
                    capability=Capability(changed["major"], changed["minor"]),
                    multiprocessors=record["sms"],
                    bus=record["bus"],
                    l2=record["l2"],
                    shared_per_multiprocessor=record["per_sm"],
                    integrated=None,  # layout D has no such member
                    memory=record["memory"],
                )
                assert not DEVICES.plausible(device), changed


def test_the_models_that_one_bit_of_the_sm_count_confuses_are_few_and_known() -> None:
    confused = set()
    for gpu in DEVICES.gpus:
        record = record_of_gpu(gpu)
        for bit in range(8):
            changed = record | {"sms": record["sms"] ^ (1 << bit)}
            found = parse_plan(*_sized(forge(form("C4"), changed)))
            confused |= {(gpu.name, other) for other in found.models}
    assert {frozenset(pair) for pair in confused} == {
        frozenset(pair)
        for pair in (
            ("A10", "RTX A5000"),
            ("A10G", "RTX 3090"),
            ("A10G", "RTX 3090 Ti"),
            ("A10G", "RTX A5000"),
            ("GTX 1070 Mobile", "GTX 1080"),
            ("GTX 1070 Mobile", "P4"),
            ("RTX 3050 Laptop", "RTX 3050 Ti Laptop"),
            ("RTX 3060 Laptop", "RTX A2000"),
            ("RTX 3060 Ti", "RTX 3070"),
            ("RTX 4070 SUPER", "RTX 4070 Ti"),
            ("RTX 4070 SUPER", "RTX 4080 Laptop"),
        )
    }


@pytest.mark.parametrize("layout", FORMS_OF_PLANS, ids=_name)
def test_an_impossible_gpu_is_unknown_and_the_version_still_told(layout: Form) -> None:
    record = record_of("RTX 3090", per_sm=65_536)
    plan = parse_plan(*_sized(forge(layout, record)))
    assert plan.kind is Kind.ENGINE
    assert plan.device is None
    assert "no GPU" in plan.problem
    assert plan.tensorrt == ".".join(map(str, layout.version))


def test_a_model_that_the_table_lacks_has_a_capability_but_no_sms() -> None:
    plan = parse_plan(*_sized(forge(form("C4"), record_of("RTX 4090", sms=117))))
    assert plan.device is not None
    assert str(plan.device.capability) == "8.9"
    assert plan.models == ()
    assert plan.multiprocessors is None


@pytest.mark.parametrize("lead", [1, 2, 0x100, 0xFFFFFFFF])
@pytest.mark.parametrize("name", ["C3", "C4", "D"])
def test_a_compatibility_value_makes_the_device_unknown(name: str, lead: int) -> None:
    plan = parse_plan(*_sized(forge(form(name, lead=lead), record_of("A10"))))
    assert plan.device is None
    assert "compatibility" in plan.problem
    assert plan.tensorrt


def test_an_unknown_layout_still_tells_the_version() -> None:
    odd = form("C4", members=form("C4").members + " memory:9", version=(11, 4, 0, 106))
    plan = parse_plan(*_sized(forge(odd, record_of("H200"))))
    assert plan.device is None
    assert "layout" in plan.problem
    assert plan.tensorrt == "11.4.0.106"


def test_behind_ultralytics_json(tmp_path: Path) -> None:
    path = tmp_path / "yolo.engine"
    path.write_bytes(with_prefix(forge(form("D"), record_of("RTX 3060"))))
    plan = read_plan(path)
    assert plan.models == ("RTX 3060",)
    assert plan.tensorrt == "10.15.1.29"
    path.write_bytes(path.read_bytes()[:-1])
    assert read_plan(path).kind is Kind.DAMAGED


def test_a_long_json_is_skipped_by_its_length(tmp_path: Path) -> None:
    path = tmp_path / "yolo.engine"
    text = b'{"names": "' + b"x" * 50_000 + b'"}'
    path.write_bytes(with_prefix(forge(form("C4"), record_of("T4")), text))
    assert read_plan(path).models == ("T4",)


def test_flatbuffers_of_tensorrt_5() -> None:
    plan = parse_plan(*_sized(flat()))
    assert (plan.layout, plan.tensorrt, plan.models) == ("F", "5.0.2.6", ("TITAN V",))


def test_flatbuffers_changed_anywhere() -> None:
    whole = flat()
    right = parse_plan(*_sized(whole))
    for at in range(len(whole)):
        for value in (*(whole[at] ^ (1 << bit) for bit in range(8)), 0, 0xFF):
            changed = whole[:at] + bytes([value]) + whole[at + 1 :]
            assert _agrees(parse_plan(changed, len(changed)), right), (at, value)


def test_flatbuffers_of_another_gpu_than_their_name() -> None:
    plan = parse_plan(*_sized(flat(sms=72)))
    assert plan.device is None
    assert "TITAN V" in plan.problem


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (b"", Kind.DAMAGED, "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", Kind.DAMAGED, "LFS"),
        (b"\x7fELF" + bytes(100), Kind.UNKNOWN, "does not begin"),
        (b"ptrt", Kind.UNKNOWN, "layout"),
        (b"ftrt", Kind.DAMAGED, "header"),
        (b"ptrt" + bytes(20) + b"\x18\x80\x01\0" + bytes(40), Kind.CACHE, "timing cache"),
        (b"\x40\0\0\0{not really", Kind.UNKNOWN, "does not begin"),
    ],
)
def test_what_is_no_engine(tmp_path: Path, content: bytes, kind: Kind, said: str) -> None:
    path = tmp_path / "rank0.engine"
    path.write_bytes(content)
    plan = read_plan(path)
    assert plan.kind is kind
    assert said in plan.problem


def test_other_sections_are_unknown() -> None:
    whole = forge(form("D"), record_of("L4")).replace(b"THGW", b"NAEL")
    plan = parse_plan(*_sized(whole))
    assert plan.kind is Kind.UNKNOWN
    assert "section" in plan.problem


def test_versions_that_do_not_agree_are_damage() -> None:
    whole = bytearray(forge(form("C4"), record_of("L4")))
    whole[25] = 9
    assert parse_plan(*_sized(bytes(whole))).kind is Kind.DAMAGED


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("C0", (8, 2, 7, 9), "8.2"),  # confirmed by the serial number; the rest is no release
        ("C0", (8, 3, 3, 0), ""),
        ("A0", (7, 0, 9, 9), "7.0.9.9"),  # confirmed by the checksum
    ],
)
def test_a_version_is_told_as_far_as_it_is_confirmed(
    name: str, version: tuple[int, int, int, int], told: str
) -> None:
    whole = bytearray(forge(form(name), record_of("T4")))
    if name == "A0":
        whole = bytearray(forge(form(name, version=version), record_of("T4")))
    else:
        for number, value in enumerate(version):
            whole[24 + 5 * number + 4] = value
    assert parse_plan(*_sized(bytes(whole))).tensorrt == told


def test_a_checksum_beyond_the_head_is_computed(tmp_path: Path) -> None:
    path = tmp_path / "big.engine"
    whole = forge(form("A2"), record_of("T4"), filling=50_000)
    path.write_bytes(whole)
    assert read_plan(path).checked
    path.write_bytes(whole[:-7] + b"\x01" + whole[-6:])
    assert read_plan(path).kind is Kind.DAMAGED


def test_only_the_head_of_a_huge_plan_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rank0.engine"
    whole = bytearray(forge(form("C3"), record_of("H100 SXM")))
    huge = 40 << 30
    body = huge - 56 - 24 - 4
    whole[16:24] = huge.to_bytes(8, "little")
    whole[48:56] = (body + 24).to_bytes(8, "little")
    whole[56 + 16 : 56 + 24] = body.to_bytes(8, "little")
    with path.open("wb") as stream:
        stream.write(whole)
        stream.truncate(huge)
    plan = read_plan(path)
    assert plan.size == huge
    assert "H100 SXM" in plan.models


@given(st.binary(max_size=400), st.integers(0, 500))
@settings(deadline=None, max_examples=150)
def test_rubbish_never_raises(rubbish: bytes, size: int) -> None:
    for magic in (b"", b"ftrt", b"ptrt"):
        assert parse_plan(magic + rubbish, size).device is None
    assert plan_offset(rubbish) >= 0


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_several_changes_never_raise(data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from(FORMS_OF_PLANS))
    whole = bytearray(forge(layout, record_of("H20"), filling=8))
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=6)
    ):
        whole[at] = value
    plan = parse_plan(bytes(whole), len(whole))
    assert plan.device is not None or plan.problem


@pytest.mark.skipif(not SHARED.is_dir(), reason="heads of public plans are not part of the product")
def test_public_plans() -> None:
    for entry in yaml.safe_load((SHARED / "index.yaml").read_text())["files"]:
        head = (SHARED / entry["file"]).read_bytes()
        plan = parse_plan(head, entry["size"])
        assert plan.device is not None
        assert str(plan.device.capability) == entry["compute_capability"]
        assert plan.multiprocessors == entry["device"]["sm_count"]
        assert plan.tensorrt == entry["tensorrt"]
        assert plan.layout == entry["layout"]
        for at in range(len(head)):
            for value in (head[at] ^ (1 << at % 8), head[at] ^ 0xFF):
                changed = head[:at] + bytes([value]) + head[at + 1 :]
                assert _agrees(parse_plan(changed, entry["size"]), plan), (entry["file"], at)
            assert _agrees(parse_plan(head[:at], entry["size"]), plan), (entry["file"], at)
            assert parse_plan(head[:at], at).device is None
