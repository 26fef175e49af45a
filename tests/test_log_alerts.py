"""From a line in a log to an alert with the line on it, and its end: collector, rules, evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.alerting.judge import Judge, Settings
from enginewatch.alerting.rules import load_rule_files
from enginewatch.collect.logs import LogCollector
from enginewatch.collect.rounds import Writers
from enginewatch.config import Config
from enginewatch.evidence.pack import shipped_pack
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.rulepack import rules_path

START = 1_700_000_000_000
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of which 1.21 GiB is free."
)
NAN = "[2026-01-02 03:04:05 TP1] Detected errors during sampling! NaN in the probability."
ENGINE = {"deployment": "chat", "instance": "a:8000"}


@pytest.mark.parametrize(
    ("line", "alert"),
    [(OOM, "EngineCudaOutOfMemory"), (NAN, "EngineLogitsNotNumbers")],
)
@pytest.mark.parametrize("labels", [ENGINE, {"deployment": "chat"}])
def test_a_line_is_an_alert_until_five_minutes_have_passed(
    tmp_path: Path, labels: dict[str, str], line: str, alert: str
) -> None:
    log = tmp_path / "engine.log"
    log.write_text("INFO all is well\n")
    rules = (rules_path() / "hazards").glob("[cq]*_[oc]*.yml")
    judge = Judge(
        load_rule_files(path for path in rules if "test" not in path.name), list, Settings()
    )
    ring, now = EvidenceRing(), START
    logs = LogCollector(
        Config.model_validate({"logs": [{"files": [str(log)], "labels": labels}]}),
        shipped_pack().signatures,
        Writers(judge.head),
        clock=lambda: now,
        ring=ring,
    )
    changes = []
    for step in range(80):
        now = START + step * 5_000
        if step == 10:
            log.write_text(log.read_text() + line + "\n")
        logs.turn()
        changes += judge.evaluate(now).changes
    told = [(c.kind.value, c.alert.name, (c.at - START) / 1000) for c in changes]
    assert told == [("firing", alert, 50), ("resolved", alert, 350)]
    fired = ring.attached(changes[0].alert, START + 50_000)
    assert fired.annotations["evidence"] == f"{log}: {line}"
    assert labels.items() <= fired.labels.items()
