"""Preflight while it serves: the command's findings, as samples, from the same files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.samples import series_at

from enginewatch.alerting.events import ChangeKind
from enginewatch.alerting.judge import Judge, Settings
from enginewatch.alerting.rules import load_rule_files
from enginewatch.cli import main
from enginewatch.collect.plugins import PLUGINS, Surroundings
from enginewatch.collect.preflight import TICK, PreflightCollector, known_gpus
from enginewatch.collect.rounds import Writers
from enginewatch.config import Config, ConfigFileError, PreflightConfig, parse_config
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample
from enginewatch.preflight.inputs import READERS
from enginewatch.preflight.readers.gpus import Gpus
from enginewatch.rulepack import rules_path
from enginewatch.store.head import Head

START: Millis = 1_700_000_000_000


class Bench:
    """A collector over one section, and rules over what it writes. Time is an argument."""

    def __init__(self, section: PreflightConfig):
        files = load_rule_files([rules_path() / "hazards" / "engine_mismatch.yml"])
        self.judge = Judge(files, tuple, Settings(interval=TICK))
        self.now = START
        self.ring = EvidenceRing()
        write = Writers(self.judge.head)
        self.collector = PreflightCollector(
            [section], self.judge.head, write, lambda: self.now, ring=self.ring
        )
        self.firing: set[str] = set()

    def run(self, span: Millis) -> None:
        async def look() -> None:
            for watch in self.collector._watches:
                await self.collector.look(watch)

        for _ in range(span // TICK):
            asyncio.run(look())
            for change in self.judge.evaluate(self.now).changes:
                if change.kind is ChangeKind.FIRING:
                    self.firing.add(change.alert.name)
            self.now += TICK


def section(**given: object) -> PreflightConfig:
    return PreflightConfig.model_validate({"deployment": "chat", "instance": "gpu-1", **given})


def test_a_file_that_can_not_be_read_becomes_a_ticket_with_its_reason(tmp_path: Path) -> None:
    freeze = tmp_path / "freeze.txt"
    freeze.write_text("no versions\n")
    bench = Bench(section(freeze=[str(freeze)]))
    bench.run(11 * 60_000)
    assert bench.firing == {"EngineMayNotFit"}
    alert = {"deployment": "chat", "instance": "gpu-1", "verdict": "engine_mismatch"}
    assert "no line says a distribution" in bench.ring.lines(alert, bench.now)[0]


def test_files_are_judged_again_and_the_finding_ends(tmp_path: Path) -> None:
    freeze = tmp_path / "freeze.txt"
    freeze.write_text("no versions\n")
    bench = Bench(section(freeze=[str(freeze)], interval=60_000))
    bench.run(TICK)
    found = series_at(bench.judge.head, "enginewatch_preflight_finding", bench.now)
    [labels] = found
    assert labels["code"] == "EW-INPUT-001"
    assert (labels["hazard"], labels["unknown"]) == ("engine_mismatch", "yes")
    freeze.write_text("vllm==0.11.0\n")
    bench.run(3 * 60_000)
    assert not series_at(bench.judge.head, "enginewatch_preflight_finding", bench.now)


@pytest.mark.parametrize(
    ("intervals", "tick"),
    [([300_000], TICK), ([300_000, 10_000], 10_000), ([1], 1_000)],
)
def test_a_short_interval_is_kept(intervals: list[Millis], tick: Millis) -> None:
    sections = [section(gpus=["2xH200"], interval=each) for each in intervals]
    assert PreflightCollector(sections, Head(), Writers(Head()), lambda: START).tick == tick


def test_what_is_gone_is_told_and_nothing_passes_for_good(tmp_path: Path) -> None:
    bench = Bench(section(freeze=[str(tmp_path / "gone.txt")]))
    bench.run(TICK)
    failed = series_at(bench.judge.head, "enginewatch_preflight_failed", bench.now)
    assert list(failed.values()) == [1.0]
    bench.run(11 * 60_000)
    assert bench.firing == {"EngineMayNotFit"}


def test_gpus_that_become_known_are_judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[tuple[Gpus, ...]] = []
    bench = Bench(section(model="meta-llama/Llama-3.1-8B"))
    [watch] = bench.collector._watches
    real = watch.judge

    def judge(gpus: tuple[Gpus, ...], now: Millis) -> None:
        judged.append(gpus)
        real(gpus, now)

    monkeypatch.setattr(watch, "judge", judge)
    bench.run(2 * TICK)
    assert judged == [()]
    told = {"name": "NVIDIA H200", "compute_capability": "9.0", "uuid": "GPU-1"}
    info = Labels({METRIC_NAME: "enginewatch_nvml_info", **told})
    Writers(bench.judge.head)("nvml", bench.now, [Sample(info, 1.0)])
    bench.run(2 * TICK)
    assert [gpus[0].model if gpus else "" for gpus in judged] == ["", "NVIDIA H200"]


def test_gpus_are_those_that_nvml_was_seen_to_have() -> None:
    head = Head()
    write = Writers(head)

    def named(metric: str, uuid: str, **labels: str) -> Labels:
        return Labels({METRIC_NAME: metric, "uuid": uuid, **labels})

    told = {"name": "NVIDIA H200", "compute_capability": "9.0", "driver_version": "580.1"}
    write(
        "nvml",
        START,
        [
            *(Sample(named("enginewatch_nvml_info", f"GPU-{n}", **told), 1.0) for n in (1, 2)),
            *(
                Sample(named("enginewatch_nvml_memory_total_bytes", f"GPU-{n}"), 1e9)
                for n in (1, 2)
            ),
        ],
    )
    [gpus] = known_gpus(head, START)
    assert (gpus.model, gpus.count, gpus.capability) == ("NVIDIA H200", 2, (9, 0))
    assert (gpus.memory, gpus.driver) == (1_000_000_000, "580.1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("preflight: [{deployment: chat}]", "names nothing to judge"),
        ("preflight: [{engine: /x}]", "unknown key"),
        ("preflight: [{url: 'http://x'}]", "endpoints are scraped and probed anyway"),
    ],
)
def test_sections_are_refused_with_a_remedy(text: str, told: str) -> None:
    with pytest.raises(ConfigFileError, match=told):
        parse_config(text, Path("enginewatch.yml"))


def test_paths_begin_at_the_configuration_and_one_value_is_a_list() -> None:
    config = parse_config("preflight: [{engine_dir: engines/a, gpus: 2xH200}]", Path("/etc/ew.yml"))
    [found] = config.preflight
    assert found.options() == {"--engine-dir": ("/etc/engines/a",), "--gpus": ("2xH200",)}


def test_a_section_takes_every_option_of_the_command_that_reads_files() -> None:
    keys = set(PreflightConfig.model_fields) - {"deployment", "instance", "interval"}
    assert {f"--{key.replace('_', '-')}" for key in keys} == set(READERS)


def test_the_daemon_has_it_only_where_it_is_asked_for() -> None:
    [plugin] = [each for each in PLUGINS if each.name == "preflight"]
    assert plugin.section(Config()) is None
    config = parse_config("preflight: [{gpus: 2xH200}]", Path("ew.yml"))
    around = Surroundings(Head(), tuple, lambda: START)
    assert plugin.section(config) is not None
    assert isinstance(plugin.make(config, around), PreflightCollector)


def test_check_config_looks_for_the_files_that_a_section_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "enginewatch.yml"
    config.write_text("preflight: [{deployment: chat, freeze: gone.txt}]\n")
    monkeypatch.setattr("sys.argv", ["enginewatch", "check-config", "-c", str(config)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "gone.txt: can't be read" in capsys.readouterr().err
