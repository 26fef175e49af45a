"""Files, folders and pipes: what can be read is read, the rest is told, nothing blocks."""

from __future__ import annotations

import gzip
import lzma
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginewatch.evidence import inputs as under_test
from enginewatch.evidence.errors import EvidenceError
from enginewatch.evidence.inputs import LONGEST_LINE, open_inputs, split_lines


def lines_of(*paths: Path) -> list[bytes]:
    return [line for one in open_inputs(paths, patience=0.2).inputs for line in one.lines]


def test_a_file_in_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\r\ntwo\nthree")
    assert lines_of(path) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("opener", [gzip.open, lzma.open])
def test_compression_is_told_by_content(tmp_path: Path, opener: object) -> None:
    path = tmp_path / "a.log"
    with opener(path, "wb") as stream:  # type: ignore[operator]
        stream.write(b"one\ntwo\n")
    assert lines_of(path) == [b"one", b"two"]


def test_a_damaged_archive_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"line\n" * 100_000)[:-200])
    opened = open_inputs([path])
    assert sum(1 for one in opened.inputs for _ in one.lines) > 1_000
    assert "damaged or cut off" in opened.notes[0]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match=r"nowhere: can't be read: No such file"):
        open_inputs([tmp_path / "nowhere"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(EvidenceError, match="Permission denied"):
        open_inputs([path])


def test_a_device_is_refused() -> None:
    with pytest.raises(EvidenceError, match="is no file, folder or pipe"):
        open_inputs([Path("/dev/null")])


def test_binary_is_read_and_told(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(bytes(range(256)) * 100)
    opened = open_inputs([path])
    assert "does not look like text" in opened.notes[0]
    assert sum(1 for one in opened.inputs for _ in one.lines) > 1


def test_a_folder_is_walked_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "b.log").write_text("b")
    (tmp_path / "a.log").write_text("a")
    (tmp_path / "rank0.engine").write_bytes(b"ftrt\0\0")
    (tmp_path / "image.dat").write_bytes(b"\0\1\2\3" * 50)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.log").write_text("c")
    (tmp_path / "loop").symlink_to(tmp_path)
    opened = open_inputs([tmp_path])
    assert [line for one in opened.inputs for line in one.lines] == [b"a", b"b"]
    assert "rank0.engine" in opened.files
    notes = "\n".join(opened.notes)
    assert "1 passed over: weights or engines" in notes
    assert "1 passed over: no text" in notes


def test_a_folder_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "MOST_FILES", 3)
    monkeypatch.setattr(under_test, "DEEPEST", 1)
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "deep.log").write_text("x")
    for number in range(9):
        (tmp_path / f"{number}.log").write_text("x")
    opened = open_inputs([tmp_path])
    assert len(opened.inputs) == 3
    assert "only the first 3 files" in "\n".join(opened.notes)


def test_a_pipe_nobody_writes_to_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(EvidenceError, match="nobody writes to this pipe"):
        lines_of(path)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        # Waits for the reader.
        with path.open("wb", buffering=0) as stream:
            stream.write(b"one\n")
            stream.write(b"two")

    writer = threading.Thread(target=write)
    (one,) = open_inputs([path], patience=5).inputs
    writer.start()
    assert list(one.lines) == [b"one", b"two"]
    writer.join()


def chunked(data: bytes, size: int) -> Iterator[bytes]:
    return iter([data[at : at + size] for at in range(0, len(data), size)])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_chunks_do_not_change_the_lines(size: int) -> None:
    data = b"\n\r\nab\ncdefg\n\nh"
    assert list(split_lines(chunked(data, size))) == [b"", b"", b"ab", b"cdefg", b"", b"h"]


def test_a_line_without_end_costs_no_more_than_its_bound() -> None:
    (line, rest) = split_lines(chunked(b"x" * (10 << 20) + b"\nend", 1 << 20))
    assert len(line) == LONGEST_LINE
    assert rest == b"end"
