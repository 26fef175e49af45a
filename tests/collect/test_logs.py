"""Followed logs: matches become samples and evidence; storms and junk become counts."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.samples import series_at

from enginewatch.collect import logs as module
from enginewatch.collect.journal import Journal, Kernel, kernel_line
from enginewatch.collect.logs import LogCollector
from enginewatch.collect.rounds import Writers
from enginewatch.config import Config
from enginewatch.evidence.pack import shipped_pack
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Alert, Labels
from enginewatch.revive import REVIVAL
from enginewatch.store.head import Head

OOM = (
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total "
    b"capacity of 79.10 GiB of which 1.21 GiB is free.\n"
)
TARGET = {"deployment": "chat", "instance": "a:8000"}
MINUTE = 60_000


class Rig:
    def __init__(self, **given: Any):
        self.now = 1_700_000_000_000
        self.head = Head()
        self.ring = EvidenceRing()
        self.logs = LogCollector(
            Config.model_validate(given),
            shipped_pack().signatures,
            Writers(self.head),
            clock=lambda: self.now,
            ring=self.ring,
        )

    def turn(self, seconds: float = 6) -> None:
        self.now += round(seconds * 1000)
        self.logs.turn()

    def value(self, name: str, **labels: str) -> float | None:
        found = series_at(self.head, f"enginewatch_log_{name}", self.now)
        values = [v for own, v in found.items() if labels.items() <= own.items()]
        assert len(values) <= 1, found
        return values[0] if values else None


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "engine.log"
    path.touch()
    return path


def following(*files: Path | str, **more: Any) -> Rig:
    rig = Rig(logs=[{"files": [str(f) for f in files], "labels": TARGET, **more}])
    rig.turn()
    return rig


def add(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_a_match_is_a_counter_a_time_and_evidence(log: Path) -> None:
    rig = following(log)
    add(log, b"INFO all is well\n" + OOM)
    rig.turn()
    assert rig.value("matches_total", verdict="cuda_oom", **TARGET) == 1
    assert rig.value("last_match_timestamp_seconds", verdict="cuda_oom") == rig.now / 1000
    assert rig.value("lines_total", source=str(log)) == 2
    (line,) = rig.ring.lines({**TARGET, "verdict": "cuda_oom"}, rig.now)
    assert line.startswith(f"{log}: torch.OutOfMemoryError")
    rig.turn(60)
    assert rig.value("matches_total", verdict="cuda_oom") == 1


@pytest.mark.parametrize(
    "envelope",
    [
        b'{"log": "%b\\n", "stream": "stderr", "time": "2026-01-02T03:04:05.678Z"}\n',
        b"2026-01-02T03:04:05.678901234Z stderr F %b\n",
    ],
)
def test_containers_lines(log: Path, envelope: bytes) -> None:
    rig = following(log)
    add(log, envelope % OOM.strip())
    rig.turn()
    assert rig.value("matches_total", verdict="cuda_oom") == 1


def test_globs_find_files_that_come_later_and_rotated_ones_are_the_past(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(OOM)
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(OOM))
    (tmp_path / "broken.log.gz").write_bytes(gzip.compress(OOM)[:-9])
    rig = following(tmp_path / "*.log*", past=True)
    assert rig.value("matches_total", verdict="cuda_oom") == 3
    (tmp_path / "b.log").write_bytes(OOM)
    rig.turn()
    assert rig.value("matches_total", verdict="cuda_oom") == 4
    (tmp_path / "a.log").unlink()
    rig.turn()
    assert rig.value("readable", source=str(tmp_path / "a.log")) is None


def test_what_cannot_be_followed_is_said_once_and_stops_nobody(
    tmp_path: Path, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    rig = following(tmp_path / "folder", tmp_path / "fifo", log)
    add(log, OOM)
    rig.turn()
    rig.turn()
    assert sorted(record.getMessage().split(": ", 2)[2] for record in caplog.records) == [
        "the log is a FIFO (only files are read)",
        "the log is a directory (only files are read)",
    ]
    assert rig.value("readable", source=str(tmp_path / "fifo")) == 0
    assert rig.value("readable", source=str(log)) == 1
    assert rig.value("matches_total", verdict="cuda_oom") == 1


def test_junk_is_read_and_means_nothing(log: Path) -> None:
    rig = following(log)
    add(log, bytes(range(256)) * 2_000 + b"\n" + b"\xff\xfe" * 100_000 + b"\n" + OOM)
    rig.turn()
    assert rig.value("matches_total", verdict="cuda_oom") == 1
    assert rig.value("lines_cut_total", source=str(log)) == 1


def test_a_storm_is_cut_short_and_counted(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHARE", 0.0)  # no time to read
    monkeypatch.setattr(module, "_BACKLOG", 10_000)
    monkeypatch.setattr(module, "_KEPT", 1_000)
    rig = following(log)
    rig.logs._sources[str(log)].tail.read(0)  # type: ignore[union-attr]
    add(log, b"x\n" * 50_000)
    rig.turn()
    assert rig.value("lines_dropped_total", source=str(log)) == 49_500


def test_ordinary_lines_cost_little(log: Path) -> None:
    """A bound that a slow machine keeps: the figure is the benchmark's."""
    rig = following(log)
    line = b"(APIServer pid=9) INFO 01-02 03:04:05 [x.py:1] GET /metrics HTTP/1.1 200 OK\n"
    add(log, line * 20_000)
    began = time.process_time()
    while rig.value("lines_total", source=str(log)) != 20_000:
        rig.turn()
    assert time.process_time() - began < 5


def test_the_kernels_lines_are_as_dmesg_prints_them() -> None:
    record = b"4,1208,93514000001,-;NVRM: Xid (PCI:0000:3b:00): 79\n SUBSYSTEM=pci\n"
    assert kernel_line(record) == b"[93514.000001] NVRM: Xid (PCI:0000:3b:00): 79"
    assert kernel_line(b"junk;text\n") == b"text"


def test_journal_and_kernel_that_are_not_there(tmp_path: Path) -> None:
    kernel = Kernel({}, tmp_path / "kmsg")
    assert "No such file" in kernel.problem
    assert kernel.read(1000) == []
    kernel.close()
    journal = Journal((), {}, program="no-such-journalctl")
    assert "no journalctl" in journal.problem
    assert journal.read(1000) == []
    journal.close()


def test_the_journal_is_what_a_program_says(tmp_path: Path) -> None:
    program = tmp_path / "journalctl"
    program.write_text(
        '#!/bin/sh\necho "$@" > ' + str(tmp_path / "asked") + '\necho \'{"MESSAGE": "hello"}\'\n'
    )
    program.chmod(0o755)
    journal = Journal(("vllm.service",), {}, program=str(program))
    found: list[bytes] = []
    deadline = time.monotonic() + 20
    while not journal.problem and time.monotonic() < deadline:
        found += journal.read(1000)
        time.sleep(0.01)
    assert found == [b'{"MESSAGE": "hello"}']
    assert journal.problem == "journal: journalctl ended with status 0"
    assert "--unit=vllm.service" in (tmp_path / "asked").read_text()
    journal.close()


def test_a_journal_that_ends_is_followed_anew_behind_its_last_message(tmp_path: Path) -> None:
    program, asked, now = tmp_path / "journalctl", tmp_path / "asked", 0.0
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {asked}\n'
        'echo \'{"__CURSOR": "s=1;i=7", "MESSAGE": "hello"}\'\nexit 3\n'
    )
    program.chmod(0o755)
    journal = Journal((), {}, program=str(program), timer=lambda: now)

    def to_its_end() -> list[bytes]:
        found: list[bytes] = []
        deadline = time.monotonic() + 20
        while "status 3" not in journal.problem and time.monotonic() < deadline:
            found += journal.read(1000)
            time.sleep(0.01)
        return found

    assert len(to_its_end()) == 1
    now = REVIVAL - 0.1
    assert journal.read(1000) == []
    assert len(asked.read_text().splitlines()) == 1
    now = REVIVAL + 0.1
    journal.read(1000)
    journal.problem = ""
    to_its_end()
    first, second = asked.read_text().splitlines()
    assert "--lines=0" in first
    assert "--no-tail --after-cursor=s=1;i=7" in second
    journal.close()


def test_evidence_is_of_the_alerts_own_deployment_and_instance_and_of_now() -> None:
    ring = EvidenceRing()
    for number, (deployment, instance, at) in enumerate(
        [("chat", "a", 0), ("chat", "b", MINUTE), ("chat", "", MINUTE), ("other", "a", MINUTE)]
    ):
        labels = Labels(deployment=deployment, instance=instance)
        ring.add("cuda_oom", labels, Evidence("log", number, f"line {number}"), at)
    alert = Labels(verdict="cuda_oom", deployment="chat", instance="a")
    assert ring.lines(alert, MINUTE) == ["log: line 0", "log:2: line 2"]
    assert ring.lines(alert, 16 * MINUTE) == ["log:2: line 2"]
    assert ring.lines(alert.with_(verdict="gpu_fault"), MINUTE) == []
    firing = Alert(alert, {"summary": "s"}, 1.0, 0, MINUTE)
    assert ring.attached(firing, MINUTE).annotations == {
        "summary": "s",
        "evidence": "log: line 0\nlog:2: line 2",
    }


def test_rings_are_bounded() -> None:
    ring = EvidenceRing()
    for number in range(3_000):
        for _ in range(3):
            ring.add("v", Labels(deployment=str(number)), Evidence("log", number, "x"), 0)
    assert ring.lines({"verdict": "v", "deployment": "0"}, 0) == []
    assert len(ring.lines({"verdict": "v", "deployment": "2999"}, 0)) == 3
