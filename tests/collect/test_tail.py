"""A log is followed whatever happens to its file; what is no file is said to be none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.collect.tail import Lines, TailedFile, TailError
from enginewatch.evidence.lines import LONGEST

MOST = 1 << 16


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "engine.log"
    path.write_bytes(b"old 1\nold 2\n")
    return path


def add(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def everything(tail: TailedFile) -> list[bytes]:
    """All that there is, read as often as it takes."""
    found: list[bytes] = []
    for _ in range(5):
        found += tail.read(MOST)
    return found


def test_only_what_is_new(log: Path) -> None:
    tail = TailedFile(log, from_start=False)
    assert everything(tail) == []
    add(log, b"new 1\nnew 2")
    assert everything(tail) == [b"new 1"]
    add(log, b" and more\n")
    assert everything(tail) == [b"new 2 and more"]
    tail.close()


def test_the_past_too(log: Path) -> None:
    assert everything(TailedFile(log, from_start=True)) == [b"old 1", b"old 2"]


def rotated(log: Path) -> None:
    add(log, b"last\n")
    log.rename(log.with_suffix(".log.1"))
    log.write_bytes(b"first\n")


def rotated_later(log: Path) -> None:
    add(log, b"last\nfirst\n")
    log.rename(log.with_suffix(".log.1"))


def truncated(log: Path) -> None:
    log.write_bytes(b"last\nfirst\n")


def copied_and_truncated(log: Path) -> None:
    """And grown past where it was, before anybody looked."""
    with log.open("r+b") as file:
        file.truncate()
        file.write(b"last\nfirst\n")
        file.write(b"more of the same\n" * 3)


@pytest.mark.parametrize("change", [rotated, rotated_later, truncated, copied_and_truncated])
def test_what_happens_to_files(log: Path, change: Callable[[Path], None]) -> None:
    tail = TailedFile(log, from_start=False)
    everything(tail)
    change(log)
    assert everything(tail)[:2] == [b"last", b"first"]
    tail.close()


def test_what_was_written_to_a_file_that_was_moved_is_not_lost(log: Path) -> None:
    tail = TailedFile(log, from_start=False)
    everything(tail)
    with log.open("ab") as writer:
        log.rename(log.with_suffix(".log.1"))
        writer.write(b"late, and without an end")
        writer.flush()
        log.write_bytes(b"first\n")
        assert everything(tail) == [b"late, and without an end", b"first"]


def test_a_file_that_comes_later_is_read_from_its_first_line(tmp_path: Path) -> None:
    tail = TailedFile(tmp_path / "later.log", from_start=False)
    assert everything(tail) == []
    (tmp_path / "later.log").write_bytes(b"first\n")
    assert everything(tail) == [b"first"]


@pytest.mark.parametrize("kind", ["directory", "FIFO"])
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "engine.log"
    path.mkdir() if kind == "directory" else os.mkfifo(path)
    with pytest.raises(TailError, match=f"engine.log: the log is a {kind}"):
        TailedFile(path, from_start=True).read(MOST)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(log: Path) -> None:
    log.chmod(0)
    with pytest.raises(TailError, match="Permission denied"):
        TailedFile(log, from_start=True).read(MOST)


def test_too_many_lines_are_left_out_and_counted(log: Path) -> None:
    tail = TailedFile(log, from_start=False)
    everything(tail)
    add(log, b"x\n" * 1_000 + b"the last line\n")
    assert tail.skip(len("the last line\n")) == 1_000 == tail.dropped
    assert everything(tail) == [b"the last line"]


def test_a_line_of_ten_megabytes_is_cut_and_counted(log: Path) -> None:
    tail = TailedFile(log, from_start=False)
    everything(tail)
    add(log, b"a" * 10_000_000 + b"\nshort\n")
    found: list[bytes] = []
    while tail.waiting():
        found += tail.read(MOST)
    assert [len(line) for line in found] == [LONGEST, 5]
    assert tail.cut == 1


@given(st.binary(max_size=300), st.lists(st.integers(1, 50), max_size=20))
@settings(deadline=None)
def test_lines_are_the_same_however_they_arrive(data: bytes, sizes: list[int]) -> None:
    lines, found, at = Lines(), [], 0
    for size in [*sizes, len(data)]:
        found += lines.feed(data[at : at + size])
        at += size
    found += lines.flush()
    *whole, rest = data.split(b"\n")
    assert found == [*whole, *([rest] if rest else [])]
    assert lines.cut == 0
