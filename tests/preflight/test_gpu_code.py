"""GPU code in files: for which architectures, and on which GPUs the driver takes it."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.preflight.capability import Capability
from enginewatch.preflight.readers import gpu_code
from enginewatch.preflight.readers.gpu_code import GpuCode, read_gpu_code, read_stream
from enginewatch.preflight.readers.gpu_target import parse_target

HEADERS = json.loads(
    (Path(__file__).parents[1] / "data" / "gpu" / "cubin-headers.json").read_text()
)


def content(name: str) -> bytes:
    """A file of nvcc's with its code left out."""
    kept = HEADERS[name]
    whole = bytearray(kept["size"])
    for at, text in kept["parts"]:
        part = bytes.fromhex(text)
        whole[at : at + len(part)] = part
    return bytes(whole)


def read(data: bytes) -> GpuCode:
    return read_stream(io.BytesIO(data), "file")


def told(code: GpuCode) -> dict[str, int]:
    return {str(target): count for target, count in code.targets.items()}


@pytest.mark.parametrize("name", ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_120"])
def test_a_cubin_tells_its_architecture(name: str) -> None:
    code = read(content(f"{name}.cubin"))
    assert (told(code), code.problem) == ({name: 1}, "")


def test_a_fat_binary_tells_machine_code_and_ptx() -> None:
    assert told(read(content("fat-100f-compute-90.fatbin"))) == {"sm_100f": 1, "compute_90": 1}


def test_a_shared_library_tells_what_its_fat_binaries_hold() -> None:
    found = told(read(content("library.so")))
    assert found == {"sm_80": 1, "sm_90a": 1, "compute_90": 1}


def test_an_image_loose_in_a_library_s_data_is_found() -> None:
    library = bytearray(content("library.so"))
    cubin = content("sm_120.cubin")
    # The section with fat binaries becomes plain data: only what is loose in it counts.
    library[:] = library.replace(b".nv_fatbin", b".rodata\0\0\0")
    (table,) = struct.unpack_from("<Q", library, 0x28)
    count, names = struct.unpack_from("<HH", library, 0x3C)
    rows = [
        (table + 64 * n, struct.unpack_from("<IIQQQQIIQQ", library, table + 64 * n))
        for n in range(count)
    ]
    strings = rows[names][1][4]
    for at, row in rows:
        if library[strings + row[0] :].startswith(b".rodata\0\0\0"):
            struct.pack_into("<QQ", library, at + 24, len(library), len(cubin) + 32)
    assert "sm_120" in told(read(bytes(library) + bytes(32) + cubin))


def test_abi_7_has_the_sm_in_the_lowest_byte() -> None:
    image = bytearray(content("sm_80.cubin").replace(b"-arch sm_80", b"-arch sm_86"))
    image[7], image[8] = 51, 7
    struct.pack_into("<I", image, 48, 0x00560556)
    assert told(read(bytes(image))) == {"sm_86": 1}


def test_ptx_as_text() -> None:
    code = read(b"//\n.version 9.0\n.target sm_90a\n.address_size 64\n")
    assert told(code) == {"compute_90a": 1}


@pytest.mark.parametrize(
    ("written", "gpu", "loads"),
    [
        ("sm_90", (9, 0), True),
        ("sm_90a", (9, 0), True),
        ("sm_80", (9, 0), False),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 0), False),
        ("sm_86", (8, 9), True),
        ("sm_100", (9, 0), False),
        ("sm_100", (10, 3), True),
        ("sm_100a", (10, 3), False),
        ("sm_100f", (10, 3), True),
        ("sm_100f", (12, 0), False),
        ("sm_120", (12, 1), True),
        ("sm_121", (12, 0), False),
        ("compute_80", (9, 0), True),
        ("compute_90a", (10, 0), False),
        ("compute_100f", (10, 3), True),
        ("compute_100f", (12, 0), False),
        ("compute_120", (9, 0), False),
    ],
)
def test_where_code_loads(written: str, gpu: tuple[int, int], loads: bool) -> None:
    target = parse_target(written)
    assert target is not None
    assert target.loads_on(Capability(*gpu)) is loads


def test_a_jetson_takes_no_other_s_machine_code_but_ptx() -> None:
    orin = Capability(8, 7)
    assert parse_target("sm_86").loads_on(orin, tegra=True) is False
    assert parse_target("sm_87").loads_on(orin, tegra=True) is True
    assert parse_target("compute_80").loads_on(orin, tegra=True) is True


def test_where_a_file_does_not_say_the_variant_a_later_gpu_is_unknown() -> None:
    image = bytearray(content("sm_100.cubin"))
    struct.pack_into("<Q", image, 0x28, 0)  # no sections
    target = read(bytes(image)[:64] + b"").targets
    assert target == {}
    whole = content("sm_100.cubin").replace(b"-arch sm_100", b"-orch sm_100")
    (found,) = read(whole).targets
    assert found.loads_on(Capability(10, 0)) is True
    assert found.loads_on(Capability(10, 3)) is None


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_cut_anywhere_it_has_a_problem(name: str) -> None:
    whole = content(name)
    right = set(read(whole).targets)
    for length in range(0, len(whole), 7):
        code = read(whole[:length])
        assert code.problem, length
        assert set(code.targets) <= right


@pytest.mark.parametrize("name", ["sm_90.cubin", "fat-100f-compute-90.fatbin"])
@given(st.data())
@settings(deadline=None, max_examples=100)
def test_damage_never_raises(name: str, data: st.DataObject) -> None:
    whole = bytearray(content(name))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    assert read(bytes(whole)).where == "file"


def test_no_bit_of_a_cubin_s_architecture_makes_another() -> None:
    whole = content("sm_80.cubin")
    for at in range(48, 52):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            assert told(read(bytes(changed))) in ({}, {"sm_80": 1})


@given(st.binary(max_size=300))
@settings(deadline=None, max_examples=100)
def test_rubbish_never_raises(rubbish: bytes) -> None:
    for magic in (b"", b"\x7fELF\x02\x01\x01", b"\x50\xed\x55\xba\x01\0\x10\0"):
        assert read(magic + rubbish).problem


def test_a_fat_entry_that_holds_another_image_is_damage() -> None:
    whole = bytearray(content("fat-100f-compute-90.fatbin"))
    # One of the entries is PTX, which has no image to compare with.
    at = next(at for at in range(16, len(whole)) if whole[at + 28 : at + 32] == b"\x64\0\0\0")
    whole[at + 28] = 90
    code = read(bytes(whole))
    assert "holds an image for something else" in code.problem


def wheel(path: Path, members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_wheel_tells_of_each_library(tmp_path: Path) -> None:
    path = wheel(
        tmp_path / "ops-1.0.whl",
        {
            "ops/lib.so": content("library.so"),
            "ops/kernels/k.cubin": content("sm_120.cubin"),
            "ops/__init__.py": b"import this",
        },
    )
    found = {code.where.partition("!")[2]: told(code) for code in read_gpu_code(path)}
    assert found == {
        "ops/lib.so": {"sm_80": 1, "sm_90a": 1, "compute_90": 1},
        "ops/kernels/k.cubin": {"sm_120": 1},
    }


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = wheel(tmp_path / "bomb.whl", {"x/lib.so": bytes(30 << 20)})
    (code,) = read_gpu_code(path)
    assert "times its size" in code.problem


def test_a_member_that_lies_about_its_size_is_not_read_past_it(tmp_path: Path) -> None:
    data = content("library.so")
    path = wheel(tmp_path / "lies.whl", {"lib.so": data}, zipfile.ZIP_STORED)
    small = struct.pack("<I", 1_000)
    raw = path.read_bytes().replace(struct.pack("<I", len(data)), small)
    path.write_bytes(raw)
    (code,) = read_gpu_code(path)
    assert code.problem


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_code, "MOST_MEMBERS", 3)
    path = wheel(tmp_path / "many.whl", {f"{n}.so": b"" for n in range(4)})
    (code,) = read_gpu_code(path)
    assert "members" in code.problem


def test_all_libraries_together_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = content("library.so")
    monkeypatch.setattr(gpu_code, "LARGEST_WHEEL", len(data) + 10)
    path = wheel(tmp_path / "large.whl", {"a.so": data, "b.so": data})
    first, second = read_gpu_code(path)
    assert not first.problem
    assert "would have" in second.problem


def test_what_is_no_wheel(tmp_path: Path) -> None:
    path = tmp_path / "broken.whl"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    (code,) = read_gpu_code(path)
    assert "zip" in code.problem
    path.write_bytes(
        wheel(tmp_path / "good.whl", {"a.so": content("library.so")}).read_bytes()[:-40]
    )
    assert read_gpu_code(path)[0].problem


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "not a file" in read_gpu_code(tmp_path)[0].problem
    assert "not a file" in read_gpu_code(tmp_path / "absent")[0].problem
