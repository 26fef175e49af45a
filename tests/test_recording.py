"""What was recorded is read back, also from a file that was cut off anywhere."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.model import Labels
from enginewatch.recording import (
    Event,
    NoteEvent,
    RecordingError,
    RecordingWriter,
    SamplesEvent,
    ScrapeEvent,
    read_recording,
)

A = Labels(instance="a:8000", job="vllm", deployment="llama", runtime="vllm")
B = Labels(instance="b:8000", job="vllm", deployment='qu"oted\\')
B2 = Labels(instance="b:8000", job="other")

EVENTS: list[Event] = [
    ScrapeEvent(A, 1764531946123, b"up 1\n# SCRAPE t=5\nx 2\n", 0.0041, 200, "text/plain; a=b"),
    NoteEvent(1764531946500, 'flood "begins"\nnow'),
    ScrapeEvent(B, 1764531947000, None, 2.0, 0, "", 'connection "refused"\r\nby peer'),
    ScrapeEvent(B2, 1764531948000, b"\xff\x00\n\n", 0.5, 200),
    SamplesEvent(B, 1764531948500, "probe", b"waited 5.0\n# SCRAPE t=5\n"),
    ScrapeEvent(B, 1764531949000, b"z 1\n"),
]


def record(path: Path, events: list[Event]) -> None:
    with RecordingWriter(path) as writer:
        for event in events:
            if isinstance(event, NoteEvent):
                writer.note(event.at, event.text)
            elif isinstance(event, SamplesEvent):
                writer.samples(event)
            else:
                writer.scrape(event)


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "r.prom"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ["r.prom", "r.prom.gz", "r.prom.xz"])
def test_what_was_written_is_read_back(tmp_path: Path, name: str) -> None:
    record(tmp_path / name, EVENTS)
    assert list(read_recording(tmp_path / name)) == EVENTS
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_the_format_is_the_documented_one(tmp_path: Path) -> None:
    record(tmp_path / "r", [EVENTS[0], EVENTS[1]])
    assert (tmp_path / "r").read_text().splitlines()[:3] == [
        "# enginewatch recording 1",
        '# TARGET deployment="llama" instance="a:8000" job="vllm" runtime="vllm"',
        (
            '# SCRAPE t=1764531946.123 instance="a:8000" duration=0.0041 status=200'
            ' content_type="text/plain; a=b" lines=3'
        ),
    ]


def test_a_page_without_a_last_newline_gets_one(tmp_path: Path) -> None:
    record(tmp_path / "r", [ScrapeEvent(A, 0, b"up 1"), ScrapeEvent(A, 1, b"")])
    pages = [e.page for e in read_recording(tmp_path / "r") if isinstance(e, ScrapeEvent)]
    assert pages == ["up 1\n", ""]


def test_pages_with_nothing_but_times(tmp_path: Path) -> None:
    path = written(tmp_path, "# SCRAPE t=0\nup 1\n# a comment\n\n# SCRAPE t=30.5\nup 0")
    target = Labels(instance="recording", job="recording", deployment="recording")
    assert list(read_recording(path)) == [
        ScrapeEvent(target, 0, b"up 1\n# a comment\n\n"),
        ScrapeEvent(target, 30500, b"up 0"),
    ]


def test_a_page_edited_by_hand_needs_no_line_count(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '# enginewatch recording 1\n# TARGET instance="a" job="j"\n# SCRAPE t=1\nx 1\ny 2\n'
        '# NOTE t=2 text="n"\n# SCRAPE t=3 instance=c\n',
    )
    first, note, last = read_recording(path)
    assert first == ScrapeEvent(Labels(instance="a", job="j"), 1000, b"x 1\ny 2\n")
    assert note == NoteEvent(2000, "n")
    assert isinstance(last, ScrapeEvent)
    assert (last.labels["instance"], last.body) == ("c", b"")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("up 1\n", 1, "a line before the first # SCRAPE (a single metrics page needs"),
        ("# enginewatch recording 2\n", 1, "recording version '2' (1 is read here)"),
        ("# SCRAPE instance=a\nup 1\n", 1, "# SCRAPE: t= is missing"),
        ("# SCRAPE t=noon\n", 1, "'noon' is not a time"),
        ("\n# SCRAPE t=1 status=ok\n", 2, "invalid literal for int()"),
        ('# SCRAPE t=1 error="x\n', 1, "is not name=value"),
        ("# SCRAPE t=1 target=2\n", 1, "target=2, but 0 were named so far"),
        ("# TARGET a=b\n# TARGET a=c\n# SCRAPE t=1\n", 3, "more than one target is meant"),
        (b'# NOTE t=1 text="\xff"\n', 1, "can't decode byte 0xff"),
    ],
)
def test_mistakes_are_told_with_their_line(
    tmp_path: Path, text: str | bytes, line: int, reason: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RecordingError) as caught:
        list(read_recording(path, tolerant=True))
    assert caught.value.where == f"{path}:{line}"
    assert reason in str(caught.value)


@settings(deadline=None, max_examples=60)
@given(share=st.floats(0, 1), packed=st.booleans())
def test_cut_off_anywhere_it_reads_up_to_the_last_whole_event(
    tmp_path_factory: pytest.TempPathFactory, share: float, packed: bool
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = folder / ("r.gz" if packed else "r")
    record(path, EVENTS)
    whole = path.read_bytes()
    part = folder / "part"
    part.write_bytes(whole[: int(len(whole) * share)])
    survivors = list(read_recording(part, tolerant=True))
    assert survivors == EVENTS[: len(survivors)]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
@pytest.mark.parametrize("left", range(13))
def test_the_first_bytes_of_a_packed_recording_are_one_cut_off(
    tmp_path: Path, pack: Callable[[bytes], bytes], left: int
) -> None:
    record(tmp_path / "r", EVENTS)
    path = written(tmp_path, pack((tmp_path / "r").read_bytes())[:left])
    assert list(read_recording(path, tolerant=True)) == []
    if left:
        with pytest.raises(RecordingError, match="the recording was cut off here"):
            list(read_recording(path))


def test_a_writer_that_dies_leaves_all_it_wrote(tmp_path: Path) -> None:
    for name in ("r", "r.gz", "r.xz"):
        writer = RecordingWriter(tmp_path / name)
        for event in EVENTS:
            if isinstance(event, ScrapeEvent):
                writer.scrape(event)
        left = (tmp_path / f"{name}.part").read_bytes()
        writer.close()
        (tmp_path / "left").write_bytes(left)
        survivors = list(read_recording(tmp_path / "left", tolerant=True))
        assert survivors == [e for e in EVENTS if isinstance(e, ScrapeEvent)]


def test_being_cut_off_is_an_error_unless_tolerated(tmp_path: Path) -> None:
    record(tmp_path / "r", EVENTS)
    whole = (tmp_path / "r").read_bytes()
    for cut in (whole[:-2], gzip.compress(whole)[:-20]):
        path = written(tmp_path, cut)
        with pytest.raises(RecordingError, match="the recording was cut off here"):
            list(read_recording(path))


def test_an_interrupt_finishes_the_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        with RecordingWriter(tmp_path / "r.xz") as writer:
            writer.note(0, "x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(read_recording(tmp_path / "r.xz")) == [NoteEvent(0, "x")]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path, "precious")
    with pytest.raises(RecordingError, match="the file exists"):
        RecordingWriter(path)
    path.rename(tmp_path / "x.part")
    with pytest.raises(RecordingError, match="the file exists"):
        RecordingWriter(tmp_path / "x")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        list(read_recording(tmp_path / "none"))
    with pytest.raises(RecordingError, match="can't write: No such file"):
        RecordingWriter(tmp_path / "none" / "r")
