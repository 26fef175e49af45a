"""What a line means where it stands: phases, what is near, what comes later, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evidence.knowledge import read
from tests.evidence.packs import signatures

from enginewatch.evidence.lines import LONGEST
from enginewatch.evidence.pack import SignaturePack, shipped_pack
from enginewatch.evidence.reader import MOST_A_SECOND, LogReader, Match
from enginewatch.evidence.signatures import Phase
from enginewatch.evidence.waiting import LONGEST_WAIT, MOST_WAITING


def found(pack: SignaturePack, text: str) -> list[tuple[str, str]]:
    """(id, verdict) of all matches that mean something."""
    return [(m.signature.id, m.verdict) for m in read(pack.signatures, text) if m.case is not None]


DEATH = """
    id: death
    pattern: died
    cases:
      - phases: [shutdown]
        verdict: benign
      - verdict: engine_dead
        severity: fatal
"""
STOP = "id: stop\npattern: stopping\nenters: shutdown"
START = "id: start\npattern: starting\nenters: startup"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("died", "engine_dead"),
        ("stopping\ndied", "benign"),
        ("died\nstopping", "engine_dead"),
        ("stopping\nstarting\ndied", "engine_dead"),
    ],
)
def test_the_phase_decides(tmp_path: Path, text: str, verdict: str) -> None:
    pack = signatures(tmp_path, DEATH, STOP, START)
    assert ("death", verdict) in found(pack, text)


def test_the_line_that_begins_a_phase_belongs_to_it(tmp_path: Path) -> None:
    pack = signatures(tmp_path, "id: s\npattern: stop\nenters: shutdown\nphases: [shutdown]")
    assert found(pack, "stop") == [("s", "")]


STALL = """
    id: stall
    pattern: waiting
    cases:
      - near: {seen: timeout, after: 2m}
        verdict: collective_hang
        severity: fatal
      - near: {seen: tokens, after: any}
        verdict: benign
      - verdict: collective_hang
        severity: fatal
        confidence: suspect
"""
TIMEOUT = "id: timeout\npattern: timed out"
TOKENS = "id: tokens\npattern: tokens flow"


@pytest.mark.parametrize(
    ("later", "verdict", "confidence"),
    [
        ("INFO 01-02 10:01:30 timed out", "collective_hang", "definite"),
        ("INFO 01-02 10:03:30 timed out", "collective_hang", "suspect"),
        ("INFO 01-02 12:00:00 tokens flow", "benign", "definite"),
        ("tokens flow\nINFO 01-02 10:01:30 timed out", "collective_hang", "definite"),
        ("nothing more", "collective_hang", "suspect"),
    ],
)  # fmt: skip
def test_a_later_line_decides(tmp_path: Path, later: str, verdict: str, confidence: str) -> None:
    pack = signatures(tmp_path, STALL, TIMEOUT, TOKENS)
    matches = read(pack.signatures, f"INFO 01-02 10:00:00 waiting\n{later}")
    (stall,) = [match for match in matches if match.signature.id == "stall"]
    assert stall.case is not None
    assert (stall.verdict, stall.case.confidence) == (verdict, confidence)
    assert stall.line.number == 1


def test_lines_without_times_are_near_by_their_number(tmp_path: Path) -> None:
    pack = signatures(tmp_path, STALL, TIMEOUT, TOKENS)
    near = found(pack, "waiting\n" + "x\n" * 100 + "timed out")
    far = read(pack.signatures, "waiting\n" + "x\n" * 300 + "timed out")
    assert ("stall", "collective_hang") in near
    (stall,) = [match for match in far if match.signature.id == "stall"]
    assert stall.case is not None
    assert stall.case.confidence == "suspect"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb", True),
        ("b", False),
        ("a\nx\nx\nb", False),
        ("c\na\nb", False),
        ("INFO 01-02 10:00:00 a\nINFO 01-02 10:00:05 b", True),
        ("INFO 01-02 10:00:00 a\nINFO 01-02 10:02:00 b", False),
    ],
)
def test_an_earlier_line_decides(tmp_path: Path, text: str, expected: bool) -> None:
    pack = signatures(
        tmp_path,
        """
        id: b
        pattern: '\\bb\\b'
        near: {seen: a, before: 30s, lines: 2}
        absent: {seen: c, before: any}
        """,
        "id: a\npattern: '\\ba\\b'",
        "id: c\npattern: '\\bc\\b'",
    )
    assert (("b", "") in found(pack, text)) is expected


def test_what_must_not_come_later_cancels(tmp_path: Path) -> None:
    pack = signatures(
        tmp_path,
        "id: a\npattern: lost\nabsent: {seen: b, after: 1m}\nverdict: engine_dead\nseverity: fatal",
        "id: b\npattern: back",
    )
    assert ("a", "engine_dead") in found(pack, "lost\nx")
    assert found(pack, "lost\nback") == [("b", "")]


def test_who_printed_it_decides(tmp_path: Path) -> None:
    pack = signatures(
        tmp_path, "pattern: stuck\ncases:\n  - {emitters: [Worker, unknown], verdict: benign}"
    )
    assert found(pack, "(Worker_TP3 pid=9) stuck") == [("s1", "benign")]
    assert found(pack, "stuck") == [("s1", "benign")]
    assert found(pack, "(EngineCore_DP0 pid=9) stuck") == []


def test_values_decide(tmp_path: Path) -> None:
    pack = signatures(
        tmp_path,
        """
        pattern: 'code (?P<code>-?[0-9]+)'
        fields: {code: int}
        only: code != 0
        cases:
          - {where: 'code in [-9, 137]', verdict: engine_dead, severity: fatal}
          - {verdict: benign}
        """,
    )
    assert [verdict for _, verdict in found(pack, "code -9\ncode 0\ncode 3\ncode 137")] == [
        "engine_dead",
        "benign",
        "engine_dead",
    ]


def test_quoted_users_are_not_read(tmp_path: Path) -> None:
    pack = signatures(
        tmp_path,
        "id: oom\npattern: out of memory\nverdict: cuda_oom\nseverity: fatal",
        "id: user\npattern: 'prompt: '\nmutes: true",
    )
    assert found(pack, "prompt: 'why out of memory?'") == []
    assert found(pack, "out of memory") == [("oom", "cuda_oom")]


def test_fields_are_typed_and_a_wrong_one_is_left_out(tmp_path: Path) -> None:
    pack = signatures(
        tmp_path,
        """
        pattern: 'n=(?P<n>\\S+)'
        fields:
          n: int
          unit: {pattern: 'unit (\\w+)'}
          marks: {type: count, pattern: '(!)'}
        """,
    )
    (match,) = read(pack.signatures, "n=12 unit MiB !!!")
    assert match.fields == {"n": 12, "unit": "MiB", "marks": 3}
    (match,) = read(pack.signatures, "n=many")
    assert match.fields == {"marks": 0}


def test_a_folded_line_counts_as_often_as_it_says(tmp_path: Path) -> None:
    pack = signatures(tmp_path, "pattern: hello")
    (match,) = read(pack.signatures, "(RayWorker pid=1) hello [repeated 6x across cluster]")
    assert match.line.repeat == 6


def test_a_match_gives_samples(tmp_path: Path) -> None:
    pack = signatures(
        tmp_path,
        """
        pattern: 'rank (?P<rank>[0-9]+) (?P<tps>[0-9.]+) tok/s'
        fields: {rank: string, tps: float, other: {pattern: 'other (\\w+)'}}
        series:
          - {name: tokens, value: tps, labels: {rank: rank, other: other}}
          - {name: lines, value: 1}
        """,
    )
    (match,) = read(pack.signatures, "rank 3 12.5 tok/s")
    assert [(repr(sample.labels), sample.value) for sample in match.samples()] == [
        ('tokens{rank="3"}', 12.5),
        ("lines", 1.0),
    ]


def test_evidence_hides_secrets(tmp_path: Path) -> None:
    pack = signatures(tmp_path, "pattern: refused")
    (match,) = read(pack.signatures, "refused --api-key topsecret9")
    assert match.evidence == ("log", 1, "refused --api-key [redacted]")


def test_a_long_line_is_cut_and_counted() -> None:
    reader = LogReader(shipped_pack().signatures)
    tail = b"CUDA out of memory. Tried to allocate 2.00 GiB"
    assert not reader.feed(b"x" * (10 << 20) + tail)
    assert reader.feed(tail + b" " * LONGEST)
    assert reader.cut == 2


class Live:
    """A log that is followed, with the time at which each line came."""

    def __init__(self, pack: SignaturePack):
        self.reader = LogReader(pack.signatures)

    def at(self, seconds: float, line: str) -> list[Match]:
        return list(self.reader.feed(line, round(seconds * 1000)))


def test_in_a_followed_log_waiting_ends(tmp_path: Path) -> None:
    live = Live(signatures(tmp_path, STALL, TIMEOUT, TOKENS))
    assert live.at(0, "waiting") == []
    assert not live.reader.tick(60_000)
    (match,) = live.reader.tick(LONGEST_WAIT + 1_000)
    assert match.case is not None
    assert match.case.confidence == "suspect"
    assert not live.reader.tick(2 * LONGEST_WAIT)


def test_what_is_decided_is_given_at_once(tmp_path: Path) -> None:
    live = Live(signatures(tmp_path, STALL, TIMEOUT, TOKENS))
    live.at(0, "waiting")
    given = live.at(30, "timed out")
    assert {(m.signature.id, m.verdict) for m in given} == {
        ("stall", "collective_hang"),
        ("timeout", ""),
    }


def test_no_more_than_a_bounded_number_waits(tmp_path: Path) -> None:
    pack = signatures(tmp_path, STALL, TIMEOUT, TOKENS)
    reader = LogReader(pack.signatures)
    given = sum(len(reader.feed("waiting")) for _ in range(MOST_WAITING + 50))
    assert given == 50
    assert len(reader.finish()) == MOST_WAITING


def test_periodic_lines_of_a_followed_log_are_read_now_and_then(tmp_path: Path) -> None:
    pack = signatures(tmp_path, "id: stats\npattern: stats\nthin: 1s", "id: bad\npattern: broken")
    live = Live(pack)
    assert len(live.at(0, "stats")) == 1
    assert live.at(0.5, "stats") == []
    assert [m.signature.id for m in live.at(0.6, "stats broken")] == ["stats", "bad"]
    assert len(live.at(1.7, "stats")) == 1
    # Read in one go, each line counts.
    assert len(read(pack.signatures, "stats\nstats\nstats")) == 3


def test_a_storm_is_read_in_part_and_counted_in_whole(tmp_path: Path) -> None:
    live = Live(signatures(tmp_path, "id: bad\npattern: broken"))
    given = sum(len(live.at(5 + n / 1_000, "broken")) for n in range(500))
    assert given == MOST_A_SECOND
    assert live.reader.passed == {"bad": 500 - MOST_A_SECOND}
    assert len(live.at(6.5, "broken")) == 1


def test_the_newest_time_is_known_though_its_line_means_nothing() -> None:
    reader = LogReader(shipped_pack().signatures, year=2026)
    reader.feed("INFO 01-02 10:00:00 nothing")
    reader.feed("no time at all")
    assert reader.last_stamp is None
    reader.feed("INFO 01-02 10:00:05 nothing")
    assert reader.last_stamp is not None
    assert reader.phase is Phase.UNKNOWN


def test_memory_is_flat_over_a_long_log() -> None:
    import tracemalloc

    lines = [
        b'INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        b"INFO 01-02 10:00:00 [async_llm.py:783] Request chatcmpl-a1 aborted.",
        b"(EngineCore pid=9) INFO 01-02 10:00:00 [s.py:1] No available block found in 60 seconds.",
    ]
    reader = LogReader(shipped_pack().signatures)
    for line in lines * 1_100:
        reader.feed(line)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for line in lines * 500:
            reader.feed(line)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000


def test_of_a_storm_a_hundred_lines_a_second_and_the_last_are_read(tmp_path: Path) -> None:
    pack = signatures(tmp_path, "pattern: 'broken (?P<n>[0-9]+)'\nfields: {n: int}")
    lines = [f"2026-05-18 09:12:{20 + n // 500}.{n % 500:03d} broken {n}" for n in range(1_000)]
    reader = LogReader(pack.signatures)
    found = [match for line in lines for match in reader.feed(line)] + reader.finish()
    assert [match.fields["n"] for match in found] == [*range(100), *range(500, 600), 999]
    assert reader.passed == {"s1": 800}


@pytest.mark.parametrize("at", ["", "[   {second}.000000] ", "E0518 09:12:{second} "])
def test_lines_without_a_second_or_of_many_are_all_read(tmp_path: Path, at: str) -> None:
    pack = signatures(tmp_path, "pattern: broken")
    text = "\n".join(f"{at.format(second=10 + n // 50)}broken" for n in range(500))
    assert len(read(pack.signatures, text)) == 500
