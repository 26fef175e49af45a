from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.evidence.lines import clean, decode, peel, unfold
from enginewatch.evidence.times import Stamp, TimeReader
from enginewatch.units import parse_time


@pytest.mark.parametrize(
    ("raw", "printed", "emitter", "repeat"),
    [
        ("(EngineCore_DP0 pid=88) ERROR x", "(EngineCore_DP0 pid=88) ERROR x", "EngineCore_DP0", 1),
        ("\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO x", "(APIServer pid=1) INFO x", "APIServer", 1),
        (
            "\x1b[36m(RayWorkerWrapper pid=5, ip=10.0.0.2)\x1b[0m [E x",
            "[E x",
            "RayWorkerWrapper",
            1,
        ),
        ("(EngineCore_0 pid=1) (RayWorker pid=2) x", "(EngineCore_0 pid=1) x", "RayWorker", 1),
        ("vllm-1  | (Worker_TP0 pid=3) x", "vllm-1  | (Worker_TP0 pid=3) x", "Worker_TP0", 1),
        ("Mar 06 12:00:00 h vllm[1]: (RayW pid=2) x", "Mar 06 12:00:00 h vllm[1]: x", "RayW", 1),
        ("(VllmWorker rank=3 pid=9) INFO", "(VllmWorker rank=3 pid=9) INFO", "VllmWorker", 1),
        (
            "(RayWorkerVllm pid=7) x\x1b[32m [repeated 6x across cluster]\x1b[0m",
            "x",
            "RayWorkerVllm",
            6,
        ),
        ("message repeated 3 times: [ NVRM: x]", "NVRM: x", "kernel", 3),
        ("[228414.765110] NVRM: Xid", "[228414.765110] NVRM: Xid", "kernel", 1),
        ("plain text (with a remark) here", "plain text (with a remark) here", "", 1),
        ("2026-01-02T03:04:05.6Z stderr F text", "2026-01-02T03:04:05.6Z text", "", 1),
        (
            '{"log":"say \\"hi\\"\\n","time":"2026-01-02T03:04:05Z"}',
            '2026-01-02T03:04:05Z say "hi"',
            "",
            1,
        ),
        ('{"level":"info","msg":"text","ts":"12:00"}', "12:00 text", "", 1),
        ('{"no":"line"}', '{"no":"line"}', "", 1),
        ("{not json", "{not json", "", 1),
        ("a\x00b\x07c", "abc", "", 1),
    ],
)
def test_what_was_put_around_a_line_goes(raw: str, printed: str, emitter: str, repeat: int) -> None:
    assert peel(clean(raw)) == (printed, emitter, repeat)


def test_a_progress_bar_is_one_line_a_state() -> None:
    assert unfold("a 1/3\ra 2/3\r\ra 3/3") == ["a 1/3", "a 2/3", "a 3/3"]


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("(APIServer pid=1) INFO 09-07 10:02:11 [x.py:1] y", "2026-09-07T10:02:11Z"),
        ("[2025-05-18 09:12:31 TP0] Decode batch", "2025-05-18T09:12:31Z"),
        ("2025-05-18T09:12:31.250Z stderr F x", "2025-05-18T09:12:31.250Z"),
        ("2025-05-18T09:12:31+02:00 x", "2025-05-18T07:12:31Z"),
        ("2025/05/18 09:12:31 x", "2025-05-18T09:12:31Z"),
        ("[04/16/2025-21:44:38] [TRT] [I] x", "2025-04-16T21:44:38Z"),
        ("E0611 08:14:22.519034 77 backend.cc:1] x", "2026-06-11T08:14:22.519Z"),
        ("[rank0]:[E811 01:10:50.482336908 P.cpp:1] x", "2026-08-11T01:10:50.482Z"),
        ("[rank1]:[W1214 15:22:51.0 T.cpp:1] x", "2026-12-14T15:22:51Z"),
        ("Aug  4 06:43:55 node kernel: x", "2026-08-04T06:43:55Z"),
        ("[Fri Aug 30 11:43:09 2024] NVRM: x", "2024-08-30T11:43:09Z"),
    ],
)
def test_times_are_read_as_engines_write_them(line: str, time: str) -> None:
    assert TimeReader(2026).read(line) == Stamp(parse_time(time))


@pytest.mark.parametrize(
    "line",
    ["no time", "at 10:00:00", "99-99 10:00:00 x", "02-30 10:00:00 x", "09-07 25:00:00 x", ""],
)
def test_what_is_no_time_is_none(line: str) -> None:
    assert TimeReader(2026).read(line) is None


def test_the_kernel_has_a_clock_of_its_own() -> None:
    times = TimeReader(2026)
    boot, wall = times.read("[ 12.345678] x"), times.read("09-07 10:02:11 x")
    assert boot == Stamp(12346, boot=True)
    assert wall is not None
    assert wall.since(boot) is None


def test_the_year_is_the_one_last_seen_and_turns_over_with_january() -> None:
    times = TimeReader(1999)
    assert times.read("[2025-12-31 23:59:58] x") == Stamp(parse_time("2025-12-31T23:59:58Z"))
    assert times.read("INFO 12-31 23:59:59 x") == Stamp(parse_time("2025-12-31T23:59:59Z"))
    assert times.read("INFO 01-01 00:00:01 x") == Stamp(parse_time("2026-01-01T00:00:01Z"))


def test_another_format_in_the_same_source_is_found_too() -> None:
    times = TimeReader(2026)
    assert times.read("INFO 09-07 10:02:11 x") is not None
    assert times.read("[04/16/2026-21:44:38] [TRT] x") == Stamp(parse_time("2026-04-16T21:44:38Z"))
    assert times.read("(EngineCore pid=1) INFO 09-07 10:02:12 x") == Stamp(
        parse_time("2026-09-07T10:02:12Z")
    )


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300))
def test_no_line_is_too_strange_to_clean(raw: bytes) -> None:
    times = TimeReader(2026)
    for part in unfold(decode(raw)):
        printed, _, repeat = peel(clean(part))
        times.read(printed)
        assert repeat >= 0
