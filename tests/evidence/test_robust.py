"""Junk in any form is read to its end, with a verdict and without a traceback."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evidence.knowledge import judge

from enginewatch.evidence.pack import shipped_pack
from enginewatch.evidence.reader import LogReader
from enginewatch.evidence.render import render

PIECES = [
    b"CUDA out of memory. Tried to allocate 2.00 GiB",
    b"NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>'",
    b"\x1b[36m(RayWorker pid=1)\x1b[0m ",
    b"No available shared memory broadcast block found in 60 seconds",
    b"INFO 02-30 25:61:61 ",
    b"INFO 01-02 10:00:00 ",
    b"Avg prompt throughput: 1e9999 tokens/s, Avg generation throughput: .. tokens/s, Running: 99999999999999999999 reqs",  # noqa: E501
    b"[repeated 999999x across cluster]",
    b'{"log":"x","time":"y"}',
    b'{"choices":[{"message":{"content":"\\u0000!!!!"}}]}',
    b"# SCRAPE t=1e30",
    b"# SCRAPE t=5",
    b'vllm:num_requests_running{model_name="m"} NaN',
    b"vllm:num_requests_running 1e308",
    b"total_num_scheduled_tokens=",
    b"\xff\xfe\x00",
    b"\r",
    b"exit code: -99999999999",
]
LINES = st.lists(
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=30)), max_size=4).map(b"".join),
    max_size=12,
)


@settings(deadline=None, max_examples=300)
@given(LINES)
def test_any_line_can_be_fed(lines: list[bytes]) -> None:
    reader = LogReader(shipped_pack().signatures, "x", year=2026)
    for at, line in enumerate(lines):
        for match in reader.feed(line, at * 500):
            list(match.samples())
            assert match.evidence.line >= 1
    reader.tick(10_000_000)
    assert reader.finish() == []


@settings(deadline=None, max_examples=60)
@given(LINES)
def test_anything_gets_a_verdict(lines: list[bytes]) -> None:
    found = judge(b"\n".join(lines))
    json.dumps(found.to_json(), allow_nan=False)
    assert render(found)


def test_a_terminal_is_not_told_what_to_do() -> None:
    found = judge("CUDA out of memory. Tried to allocate 2.00 GiB \x1b]0;owned\x07\x9b2J")
    shown = render(found)
    assert "\x1b" not in shown
    assert "\x9b" not in shown


def test_a_damaged_page_is_read_in_part() -> None:
    page = '# SCRAPE t=0\nvllm:corrupted_requests_total{model_name="m"} 3\nbroken{ 1\n'
    found = judge(page)
    assert found.verdict == "quality_collapse"


def test_two_series_that_become_one_are_a_note_at_most() -> None:
    page = (
        '# SCRAPE t=0\nvllm:num_requests_running{model_name="m",engine="0"} 1\n'
        'vllm:num_requests_running{model="m",engine="0"} 1\n'
    )
    assert judge(page).verdict
