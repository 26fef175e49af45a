"""`enginewatch canary` as a user runs it, against an engine that may be worse than it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.canary.engine import Engine
from tests.support.cli import Done, Run, console_script
from tests.support.server import serve

from enginewatch.canary.baseline import Answer, Baseline, Known, write_baseline
from enginewatch.canary.task import Kind, Task, read_tasks, write_tasks
from enginewatch.cli import canary_plan

TASKS = [
    Task(f"{family}-{n}", family, f"{family} {n}: 37 * {n}?", Kind.NUMBER, str(37 * n))
    for family in ("sums", "times")
    for n in range(70)
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return console_script(monkeypatch, capsys)


class World:
    def __init__(self, folder: Path, url: str, engine: Engine, run: Run):
        self.run = run
        self.folder, self.url, self.engine = folder, url, engine
        self.tasks = folder / "tasks.jsonl"
        self.tasks.write_text("\n".join(write_tasks(TASKS)) + "\n")
        self.baseline = folder / "baseline.jsonl"

    def trust(self) -> None:
        """A baseline as a run of `record` would write it, without asking."""
        rows = (Known(task, (Answer(str(task.answer), True, -0.003),) * 2) for task in TASKS)
        lines = write_baseline(Baseline(tuple(rows), about={"model": "small"}))
        self.baseline.write_text("".join(f"{line}\n" for line in lines))

    def record(self, *more: str) -> Done:
        tasks = ("--tasks", str(self.tasks), "--repeat", "2")
        url = ("--url", self.url, "-o", str(self.baseline))
        return self.run("canary", "baseline", *url, *tasks, *more)

    def compare(self, *more: str) -> Done:
        given = ("--baseline", str(self.baseline), "--url", self.url)
        return self.run("canary", "compare", *given, *more)


@pytest.fixture
def world(tmp_path: Path, run: Run) -> Iterator[World]:
    engine = Engine(TASKS)
    with serve(engine.app()) as url:
        yield World(tmp_path, url, engine, run)


def spoil_every(world: World, nth: int, answer: str = "41") -> None:
    bad = {task.id for task in TASKS[::nth]}
    world.engine.spoil = lambda task, right: answer if task.id in bad else right


def test_tasks_are_printed_in_the_format_that_is_read(tmp_path: Path, run: Run) -> None:
    done = run("canary", "tasks", "--seed", "7", "--count", "30", "--longest", "2000")
    path = tmp_path / "mine.jsonl"
    path.write_text(done.stdout)
    tasks = read_tasks(path)
    assert 20 <= len(tasks) < 30
    assert max(task.tokens for task in tasks) <= 2000
    more = run("canary", "tasks", "--tasks", str(path), "--thinking", "1000").stdout.splitlines()
    assert json.loads(more[0])["max_tokens"] == tasks[0].max_tokens + 1000
    assert run("canary", "tasks", "--seed", "7", "--count", "30", "--longest", "2000").stdout == (
        done.stdout
    )


QUICK = ("--logprobs", "off")


def test_a_deployment_is_as_good_as_itself(world: World) -> None:
    told = world.record("--about", "format=bf16")
    assert told.returncode == 0, told.stderr
    assert "sums: 100.0% of 140 answers right" in told.stdout
    assert "log-probabilities of 140 tasks" in told.stdout
    head = json.loads(world.baseline.read_text().splitlines()[0])
    assert (head["model"], head["version"], head["format"]) == ("small", "0.32.0", "bf16")
    once = world.compare(*QUICK)
    assert once.returncode == 0, once.stdout + once.stderr
    many = world.compare("--answers", "150", "--format", "json", *QUICK)
    assert many.returncode == 0, many.stdout
    found = json.loads(many.stdout)
    assert found["answers"] == 150
    assert found["alarms"] == []


def test_a_damaged_deployment_is_refused_with_examples(world: World) -> None:
    world.trust()
    spoil_every(world, 5, "<b>41</b>\x1b[31m")
    once = world.compare(*QUICK)
    assert once.returncode == 1
    assert "EW-QUALITY-005" in once.stdout
    assert "28 tasks lost; the first of them:" in once.stdout
    assert "candidate  <b>41</b>\\u{1b}[31m" in once.stdout
    assert "\x1b" not in once.stdout
    told = json.loads(world.compare("--format", "json", *QUICK).stdout)
    assert told["outcome"] == "fail"
    assert told["examples"][0].keys() >= {"task", "expected", "baseline", "candidate"}


def test_answers_one_by_one_end_at_the_alarm(world: World) -> None:
    world.trust()
    spoil_every(world, 5, "41")
    many = world.compare("--answers", "2000", "--seed", "1", *QUICK)
    assert many.returncode == 1
    assert "ALARM after" in many.stdout
    told = json.loads(
        world.compare("--answers", "2000", "--seed", "1", "--format", "json", *QUICK).stdout
    )
    assert {alarm["test"] for alarm in told["alarms"]} <= {"steady", "pass"}
    assert told["alarms"][0]["answers"] == told["answers"] < 150


def test_a_model_that_is_less_sure_is_told(world: World) -> None:
    world.trust()
    world.engine.logprob = lambda: -0.05
    once = world.compare()
    assert once.returncode == 0
    assert "EW-CANARY-002" in once.stdout.split("Passed")[0]
    many = json.loads(world.compare("--answers", "300", "--format", "json").stdout)
    assert {alarm["test"] for alarm in many["alarms"]} == {"logprob"}


def test_degenerate_answers_are_refused(world: World) -> None:
    world.trust()
    spoil_every(world, 14, "!" * 200)
    once = world.compare(*QUICK)
    assert once.returncode == 1
    assert "10 of 140 answers: " in once.stdout
    assert "10 run" in once.stdout
    many = json.loads(world.compare("--answers", "900", "--format", "json", *QUICK).stdout)
    assert many["alarms"][0]["test"] in {"degenerate", "steady"}
    assert many["degenerate"]["run"] >= 1


def test_what_was_not_answered_is_not_known(world: World) -> None:
    world.trust()
    world.engine.status = lambda: 500 if "7?" in world.engine.asked[-1]["prompt"] else 200
    once = world.compare("--concurrency", "1", *QUICK)
    assert once.returncode == 3
    assert "EW-CANARY-003" in once.stdout
    world.engine.status = lambda: 503
    none = world.compare(*QUICK)
    assert none.returncode == 2
    assert "no task was answered" in none.stderr
    assert world.compare("--answers", "50").returncode == 3
    refused = world.record(*QUICK)
    assert refused.returncode == 2
    assert "280 questions of 280 had no answer" in refused.stderr


def test_evaluations_of_another_tool_are_compared(tmp_path: Path, run: Run) -> None:
    def samples(name: str, lost: int) -> Path:
        path = tmp_path / name / "samples_gsm8k_2026-03-01T10-00-00.jsonl"
        path.parent.mkdir()
        rows = [{"doc_id": n, "exact_match": float(n >= lost)} for n in range(400)]
        path.write_text("\n".join(map(json.dumps, rows)))
        return path.parent

    trusted, fine, bad = samples("a", 20), samples("b", 20), samples("c", 60)
    assert (
        run("canary", "compare", "--baseline", str(trusted), "--evals", str(fine)).returncode == 0
    )
    refused = run("canary", "compare", "--baseline", str(trusted), "--evals", str(bad))
    assert refused.returncode == 1
    assert "gsm8k" in refused.stdout


def test_an_engine_that_was_busy_for_a_moment_is_asked_again(world: World) -> None:
    world.trust()
    world.engine.status = lambda: 429 if 20 < len(world.engine.asked) < 40 else 200
    assert world.compare("--concurrency", "4", *QUICK).returncode == 0


def test_plan_of_a_baseline(world: World, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    world.trust()
    monkeypatch.setattr(canary_plan, "LATE", 500)
    monkeypatch.setattr(canary_plan, "MOST", 1_000)
    done = run("canary", "plan", "--baseline", str(world.baseline))
    assert done.returncode == 0, done.stderr
    assert "answers to 140 tasks that always passed" in done.stdout
    assert "-20 points" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "--baseline", "gone.jsonl", "--url", "http://127.0.0.1:9"), "can't be read"),
        (("compare", "--baseline", "gone.jsonl"), "give --url or --evals"),
        (("tasks", "--tasks", "gone.jsonl"), "can't be read"),
        (("tasks", "--longest", "1"), "leaves no task"),
        (("baseline", "--url", "http://127.0.0.1:9", "-o", "x", "--about", "bf16"), "KEY=VALUE"),
        (("baseline", "--url", "http://127.0.0.1:9", "-o", "x", "--count", "2"), "127.0.0.1:9"),
        (("baseline", "--url", "http://u:p@h", "-o", "x", "--count", "2"), "credentials"),
        (("plan", "--baseline", "gone.jsonl"), "can't be read"),
    ],
)
def test_wrong_use_is_one_sentence(arguments: tuple[str, ...], said: str, run: Run) -> None:
    done = run("canary", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_check_config_reads_the_baseline(world: World, run: Run) -> None:
    path = world.folder / "enginewatch.yml"
    path.write_text("scrape_configs: [{job_name: j}]\ncanary: {baseline: baseline.jsonl}\n")
    missing = run("check-config", "-c", str(path))
    assert missing.returncode == 2
    assert "baseline.jsonl: can't be read" in missing.stderr
    world.trust()
    assert run("check-config", "-c", str(path)).returncode == 0
