"""`make gpu-cubins` and `make gpu-cubins-check`: is our verdict on GPU code the driver's?

    python3 -m tests.gpu.cubins build DIR      where nvcc is: compiles one kernel for many targets
    python3 -m tests.gpu.cubins check DIR      where a GPU is: loads each file, and compares
    python3 -m tests.gpu.cubins headers DIR    writes tests/data/gpu/cubin-headers.json from DIR

`check` needs Python, this package on PYTHONPATH, and NVIDIA's driver; no CUDA toolkit, and no
other package. It exits with the number of files on which the two disagree.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from enginewatch.preflight.capability import Capability
from enginewatch.preflight.readers.gpu_code import GpuCode, read_gpu_code

KERNEL = """
extern "C" __global__ void add_one(int *values) { values[threadIdx.x] += 1; }
"""
# fmt: off
BINARIES = (
    "75", "80", "86", "87", "89", "90", "90a", "100", "100a", "100f", "103", "103a", "103f",
    "110", "110a", "120", "120a", "120f", "121", "121a",
)
ASSEMBLERS = ("75", "80", "86", "90", "90a", "100", "100a", "100f", "120", "120a")
# fmt: on
FAT = {
    "fat-80-90": ("sm_80", "sm_90"),
    "fat-80-compute-80": ("sm_80", "compute_80"),
    "fat-100-120": ("sm_100", "sm_120"),
    "fat-100f-compute-90": ("sm_100f", "compute_90"),
    "fat-90a-100a": ("sm_90a", "sm_100a"),
    "fat-120-compute-100f": ("sm_120", "compute_100f"),
}
KEPT = ("sm_80.cubin", "sm_90.cubin", "sm_90a.cubin", "sm_100.cubin", "sm_100f.cubin")
KEPT += ("sm_120.cubin", "fat-100f-compute-90.fatbin", "library.so")
HEADERS = Path(__file__).parents[1] / "data" / "gpu" / "cubin-headers.json"
NO_COMPILER = 221
"""CUDA_ERROR_JIT_COMPILER_NOT_FOUND: a part of the driver is missing, so PTX tells nothing."""
REFUSED = {
    200: "CUDA_ERROR_INVALID_IMAGE",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    218: "CUDA_ERROR_INVALID_PTX",
    NO_COMPILER: "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
}


def build(folder: Path) -> None:
    """Compile everything. The work is some thirty small runs of nvcc."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        sys.exit("nvcc is not in the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "kernel.cu"
        source.write_text(KERNEL)

        def run(name: str, *flags: str) -> None:
            command = [nvcc, *flags, "-o", str(folder.resolve() / name), str(source)]
            subprocess.run(command, check=True, cwd=scratch)
            print(name, flush=True)

        for each in BINARIES:
            run(f"sm_{each}.cubin", "-cubin", f"-arch=sm_{each}")
        for each in ASSEMBLERS:
            run(f"compute_{each}.ptx", "-ptx", f"-arch=compute_{each}")
        for name, codes in FAT.items():
            run(f"{name}.fatbin", "-fatbin", *_generate(codes))
        codes = ("sm_80", "sm_90a", "compute_90")
        shared = ("-shared", "-cudart", "none", "-Xcompiler", "-fPIC")
        run("library.so", *shared, *_generate(codes))


def _generate(codes: tuple[str, ...]) -> Iterator[str]:
    for code in codes:
        yield "-gencode"
        yield f"arch=compute_{code.partition('_')[2]},code={code}"


class Driver:
    """CUDA's driver API, of which only the loading of modules is used."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as failure:
            sys.exit(f"no NVIDIA driver here: {failure}")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._do("cuCtxSetCurrent", context)
        self._device = device
        self.capability = Capability(self._attribute(75), self._attribute(76))

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(100)
        self._do("cuDeviceGetName", text, 100, self._device)
        return text.value.decode()

    @property
    def version(self) -> int:
        found = ctypes.c_int()
        self._do("cuDriverGetVersion", ctypes.byref(found))
        return found.value

    def load(self, image: bytes) -> int:
        """0, or why the driver does not take the image."""
        module = ctypes.c_void_p()
        # A PTX text ends with a zero; other images know their length.
        found: int = self._cuda.cuModuleLoadData(ctypes.byref(module), image + b"\0")
        if found == 0:
            self._do("cuModuleUnload", module)
        return found

    def _attribute(self, number: int) -> int:
        found = ctypes.c_int()
        self._do("cuDeviceGetAttribute", ctypes.byref(found), number, self._device)
        return found.value

    def _do(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code:
            sys.exit(f"{name} answered {code}")


def check(folder: Path, out: Path | None) -> int:
    """The number of disagreements."""
    driver = Driver()
    rows = []
    paths = sorted(p for p in folder.iterdir() if p.suffix in (".cubin", ".fatbin", ".ptx"))
    for path in paths:
        (code,) = read_gpu_code(path)
        answer = driver.load(path.read_bytes())
        ours = verdict(code, driver.capability)
        agree = None if answer == NO_COMPILER else ours is (answer == 0)
        rows.append(
            {
                "file": path.name,
                "targets": sorted(map(str, code.targets)),
                "ours": ours,
                "driver": answer,
                "agree": agree,
            }
        )
        said = "loads" if answer == 0 else f"{answer} {REFUSED.get(answer, '')}"
        mark = {True: "ok  ", False: "FAIL", None: "skip"}[agree]
        print(f"{mark} {path.name:28} ours: {ours!s:5}  driver: {said}", flush=True)
    report = {
        "gpu": driver.name,
        "capability": str(driver.capability),
        "cuda_driver": driver.version,
        "files": rows,
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "cubins.json").write_text(json.dumps(report, indent=1) + "\n")
    wrong = sum(row["agree"] is False for row in rows)
    print(f"{driver.name} ({driver.capability}): {len(rows)} files, {wrong} disagreements")
    return wrong if rows else 1


def verdict(code: GpuCode, gpu: Capability) -> bool | None:
    """Whether any image in the file loads; None where that can't be said."""
    if code.problem or not code.targets:
        return None
    answers = {each.loads_on(gpu) for each in code.targets}
    return True if True in answers else None if None in answers else False


def headers(folder: Path) -> None:
    """Of a few files, what the readers look at, as text; the code itself is left out."""
    kept: dict[str, Any] = {}
    for name in KEPT:
        content = (folder / name).read_bytes()
        parts = _merged(sorted(_parts(content)))
        kept[name] = {
            "size": len(content),
            "parts": [[start, content[start:end].hex()] for start, end in parts],
        }
    HEADERS.write_text(json.dumps(kept, indent=1) + "\n")


def _parts(content: bytes) -> Iterator[tuple[int, int]]:
    """The stretches that hold headers, notes and names."""
    if content.startswith(b"\x7fELF"):
        (table,) = struct.unpack_from("<Q", content, 0x28)
        count, names = struct.unpack_from("<HH", content, 0x3C)
        yield 0, 64
        yield table, table + 64 * count
        rows = [struct.unpack_from("<IIQQQQIIQQ", content, table + 64 * n) for n in range(count)]
        for row in rows:
            start = rows[names][4] + row[0]
            name = content[start : content.index(b"\0", start)]
            if row is rows[names] or name in (b".note.nv.tkinfo", b".nv.compat"):
                yield row[4], row[4] + row[5]
            if name == b".nv_fatbin":
                yield from _entries(content, row[4], row[4] + row[5])
    else:
        yield from _entries(content, 0, len(content))


def _entries(content: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """The headers in a stretch of fat binaries, and those of the images they hold."""
    while (at := content.find(b"\x50\xed\x55\xba", at, end)) >= 0:
        (length,) = struct.unpack_from("<Q", content, at + 8)
        yield at, at + 16
        entry, stop = at + 16, at + 16 + length
        while entry < stop:
            _, _, header, payload = struct.unpack_from("<HHIQ", content, entry)
            yield entry, entry + header
            image = content[entry + header : entry + header + payload]
            if image.startswith(b"\x7fELF"):
                yield from ((entry + header + a, entry + header + b) for a, b in _parts(image))
            entry += header + payload
        at = stop


def _merged(parts: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start, end = parts[0]
    for begin, stop in parts[1:]:
        if begin > end + 16:
            yield start, end
            start = begin
        end = max(end, stop)
    yield start, end


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("build", "check", "headers"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="a folder for cubins.json")
    given = parser.parse_args()
    if given.what == "build":
        build(given.folder)
    elif given.what == "headers":
        headers(given.folder)
    else:
        return check(given.folder, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
