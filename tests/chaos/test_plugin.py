"""The plugin as a user meets it: pytest in a process of its own, against a target file."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

# Before pytester takes its snapshot of modules: it forgets what is imported after that.
import httpcore  # noqa: F401 - httpx loads it at its first request
import pytest
from tests.chaos.world import DEPLOYMENT, VERDICT, World

import enginechaos.induction
import enginechaos.stage  # noqa: F401
from enginechaos import plugin
from enginechaos.processes import stat
from enginechaos.suite import conftest
from enginechaos.undo import owes

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.integration

LEAN = [
    "--assert=plain",
    *(
        word
        for name in ("cacheprovider", "hypothesispytest", "xdist")
        for word in ("-p", f"no:{name}")
    ),
]
"""What other plugins of this environment cost is paid once, outside."""

TEST = """
import time
import pytest
from enginechaos.faults import Evidence, NoFault, StoppedRank

class Broken(StoppedRank):
    verify_within = 0.5
    def inject(self, target):
        pass

@pytest.mark.hazard("collective_hang", certifies="it & <works>", but_not="<script>x</script>")
def test_it(induce, expect_page, expect_silence):
    with induce({fault}):
        {body}
"""


class Ran:
    """What a pytest came to, and the folder of the last run."""

    def __init__(self, folder: Path, code: int, output: str):
        self.code = code
        self.output = output
        runs = sorted((folder / ".enginechaos").glob("*"), key=lambda each: each.stat().st_mtime)
        self.folder = runs[-1] if runs else folder

    @property
    def test(self) -> dict[str, Any]:
        (only,) = json.loads((self.folder / "journal.json").read_text())["tests"]
        return dict(only)


class Suite:
    """One test of a user's own, run by pytest at the world's target file."""

    def __init__(self, pytester: pytest.Pytester, world: World):
        self.pytester = pytester
        self.folder = pytester.path
        self.world = world

    def arguments(self, *more: str, mean: str | None = DEPLOYMENT, **changes: Any) -> list[str]:
        target = self.world.write(self.folder / "staging.yml", **changes)
        named = ["--i-mean", mean] if mean else []
        return [*LEAN, "--target", str(target), *named, *more]

    def write(self, body: str, fault: str = "StoppedRank(1)") -> None:
        (self.folder / "test_mine.py").write_text(TEST.format(fault=fault, body=body))

    def run(self, *more: str, mean: str | None = DEPLOYMENT, **changes: Any) -> Ran:
        arguments = self.arguments(*more, mean=mean, **changes)
        result = self.pytester.runpytest_inprocess(*arguments)
        return Ran(self.folder, int(result.ret), "\n".join([*result.outlines, *result.errlines]))

    def start(self, *more: str) -> subprocess.Popen[str]:
        """In a process of its own, until the rank is stopped."""
        started = subprocess.Popen(
            [sys.executable, "-m", "pytest", *self.arguments(*more)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A shell's background jobs ignore Ctrl-C, and so would what they start.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        _wait_for(self.stopped)
        return started

    def stopped(self) -> bool:
        return any(self.world.engine.stopped())


@pytest.fixture
def suite(pytester: pytest.Pytester, world: World) -> Suite:
    made = Suite(pytester, world)
    made.write(f'expect_page("{VERDICT}")')
    return made


def test_a_page_that_comes_and_goes_passes_and_is_written_down(suite: Suite) -> None:
    ran = suite.run("--chaos-seed", "7")
    assert ran.code == 0, ran.output
    assert "detect" in ran.output
    assert "seed 7" in ran.output
    (incident,) = ran.test["incidents"]
    assert [event["what"] for event in incident["events"]] == [
        *("steady", "undo_written", "injected", "verified", "pending", "firing", "delivered"),
        *("undone", "resolved", "resolve_delivered", "steady_again"),
    ]
    assert set(incident["figures"]) == {"detect", "deliver", "resolve"}
    assert "/proc says T" in incident["evidence"]
    assert not owes(ran.folder)
    page = (ran.folder / "report.html").read_text()
    assert "<svg" in page
    assert "<script>" not in page
    case = ElementTree.parse(ran.folder / "junit.xml").find(".//testcase")
    assert case is not None
    assert {p.get("name"): p.get("value") for p in case.iter("property")}["outcome"] == "passed"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"deaf": True}, "no collective_hang alert fired within 1.5 s"),
        ({"severity": "ticket"}, "severity 'ticket', expected 'page'"),
        ({"twice": True}, "paged twice with the same news"),
        ({"forgets": True}, "was not over at every receiver within 1.5 s"),
        ({"also": "stuck_engine"}, "webhook: firing stuck_engine"),
    ],
)
def test_a_watchdog_that_is_wrong_fails(suite: Suite, wrong: dict[str, Any], says: str) -> None:
    for name, value in wrong.items():
        setattr(suite.world.watchdog, name, value)
    ran = suite.run()
    assert ran.code == 1
    assert says in ran.output
    assert ran.test["outcome"] == "failed"
    assert not suite.stopped()


def test_an_injection_without_evidence_is_inconclusive_and_fails_the_build(suite: Suite) -> None:
    suite.write(f'expect_page("{VERDICT}")', "Broken(1)")
    ran = suite.run()
    assert ran.code == 1
    assert "1 inconclusive" in ran.output
    assert "no evidence within 0.5 s that it took effect" in ran.output
    assert ran.test["outcome"] == "inconclusive"
    error = ElementTree.parse(ran.folder / "junit.xml").find(".//error")
    assert error is not None
    assert error.get("type") == "inconclusive"


def test_an_unsteady_target_is_an_error_and_nothing_is_injected(suite: Suite) -> None:
    suite.world.engine.healthy = False
    ran = suite.run(limits={"steady": 0.5})
    assert ran.code == 1
    assert "no steady state before the fault within 0.5 s" in ran.output
    assert "1 error" in ran.output
    assert "injected" not in [e["what"] for e in ran.test["incidents"][0]["events"]]


def test_silence_is_an_expectation_too(suite: Suite) -> None:
    suite.write("expect_silence(0.5)", "NoFault()")
    assert suite.run().code == 0
    suite.write("expect_silence(2)")
    ran = suite.run()
    assert ran.code == 1
    assert "expected silence, and heard: " in ran.output


def test_the_silence_of_a_dead_watchdog_proves_nothing(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginechaos.induction.DEAF", 0.3)
    suite.write("time.sleep(0.5); expect_silence(1)", "NoFault()")
    suite.world.watchdog.mute_after = 0.3
    ran = suite.run()
    assert ran.code == 1
    assert "the watchdog does not answer" in ran.output
    assert ran.test["outcome"] == "error"


def test_a_fault_that_lasts_too_long_is_undone_meanwhile(suite: Suite) -> None:
    suite.write('expect_page("cuda_oom", within=30)')
    ran = suite.run(limits={"fault": 1, "steady": 3})
    assert ran.code == 1
    assert "the fault lasted longer than its limit of 1 s" in ran.output
    assert not suite.stopped()


def test_a_guarded_signal_out_of_bounds_aborts(suite: Suite) -> None:
    suite.write('expect_page("cuda_oom", within=30)')
    ran = suite.run(abort_when=[{"query": "errors", "above": 0.5}])
    assert ran.code == 1
    assert "a guarded signal left its bounds: errors above 0.5 (it is 1)" in ran.output
    assert not suite.stopped()


def test_a_dry_run_prints_the_plan_and_touches_nothing(suite: Suite) -> None:
    ran = suite.run("--dry-run", mean=None)
    assert ran.code == 0, ran.output
    assert f"stopped rank: rank 1 of {DEPLOYMENT} (this machine) does not run" in ran.output
    assert not (suite.folder / ".enginechaos").exists()


def test_a_hazard_that_the_file_does_not_name_is_not_induced(suite: Suite) -> None:
    ran = suite.run("-rs", may_induce=["engine_dead"])
    assert ran.code == 0
    assert "may_induce does not name collective_hang" in ran.output


@pytest.mark.parametrize(
    ("mean", "changes", "says"),
    [
        (DEPLOYMENT, {"limts": {}}, "limts: unknown key (did you mean 'limits'?)"),
        (DEPLOYMENT, {"environment": "prod"}, "faults are induced in staging only"),
        (None, {}, "this breaks 'chat-staging' on purpose, and nothing was typed"),
        (DEPLOYMENT, {"engine": {"url": "http://127.0.0.1:1", "model": "m"}}, "can't be reached"),
    ],
)
def test_a_target_that_is_wrong_is_wrong_use(
    suite: Suite, mean: str | None, changes: dict[str, Any], says: str
) -> None:
    ran = suite.run(mean=mean, **changes)
    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert says in ran.output
    assert "Traceback" not in ran.output


def test_a_watchdog_that_calls_it_production_is_believed(suite: Suite) -> None:
    suite.world.watchdog.labels = {"env": "production"}
    ran = suite.run()
    assert ran.code == 1
    assert 'has the label env="production": it looks like production' in ran.output
    assert "injected" not in str(ran.test["incidents"])


def test_an_option_that_another_plugin_has_taken_stays_its_own(suite: Suite) -> None:
    suite.pytester.makepyfile(
        other="def pytest_addoption(parser): parser.addoption('--target', dest='other')"
    )
    suite.pytester.syspathinsert()
    target = suite.world.write(suite.folder / "staging.yml")
    long = ["--chaos-target", str(target), "--chaos-dry-run"]
    result = suite.pytester.runpytest_inprocess("-p", "other", *LEAN, "--target", "x", *long)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*the plan; nothing was touched*"])


@pytest.mark.parametrize(
    ("args", "pyargs", "whole"),
    [
        (["chaos/"], False, True),
        (["chaos/enginechaos/suite"], False, True),
        (["enginechaos"], True, True),
        (["."], False, False),
        (["chaos/", "tests/"], False, False),
        (["chaos/enginechaos/suite/test_controls.py"], False, False),
        ([], False, False),
    ],
)
def test_only_the_whole_suite_is_run_side_by_side(
    args: list[str], pyargs: bool, whole: bool
) -> None:
    root = Path(plugin.__file__).parents[2]
    option = SimpleNamespace(
        pyargs=pyargs,
        numprocesses=None,
        tx=[],
        dist="no",
        usepdb=False,
        keyword="",
        collectonly=False,
        chaos_dry_run=False,
        chaos_target=None,
    )
    config = SimpleNamespace(option=option, args=args, invocation_params=SimpleNamespace(dir=root))
    plugin.pytest_cmdline_main(config)  # type: ignore[arg-type]
    assert option.tx == (["popen"] * plugin.SIDE_BY_SIDE if whole else [])
    assert not whole or option.loadscopereorder is False
    config.workerinput, option.numprocesses, option.tx = {}, None, []
    plugin.pytest_cmdline_main(config)  # type: ignore[arg-type]
    assert option.tx == []


def test_the_files_that_begin_first_are_there() -> None:
    names = {path.stem for path in Path(conftest.__file__).parent.glob("test_*.py")}
    assert names > set(conftest.LONGEST_FIRST)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_undoes_what_was_injected(suite: Suite, number: signal.Signals) -> None:
    suite.write("time.sleep(30)")
    running = suite.start()
    running.send_signal(number)
    output, _ = running.communicate(timeout=90)
    assert running.returncode == pytest.ExitCode.INTERRUPTED, output
    assert not suite.stopped()
    (folder,) = (suite.folder / ".enginechaos").glob("*")
    assert not owes(folder)
    assert Ran(suite.folder, 2, output).test["reason"] == "interrupted"


def test_what_a_killed_run_left_is_undone_by_command_and_stands_in_the_way(suite: Suite) -> None:
    suite.write("time.sleep(30)")
    running = suite.start()
    second = suite.run()
    assert second.code == pytest.ExitCode.USAGE_ERROR
    assert "another run is at this target" in second.output
    running.kill()
    running.communicate(timeout=10)
    assert suite.stopped()
    third = suite.run()
    assert third.code == pytest.ExitCode.USAGE_ERROR
    assert "the last run at this target has left something undone" in third.output
    undo = subprocess.run(
        [sys.executable, "-m", "enginechaos", "undo"],
        cwd=suite.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert undo.returncode == 0
    assert "stopped rank: sent CONT to stand-in-rank_1" in undo.stdout
    _wait_for(lambda: not suite.stopped())


def test_a_full_disk_keeps_the_fault_from_being_injected(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("enginechaos.undo.os.fsync", full)
    ran = suite.run()
    assert ran.code == 1
    assert "the undo can't be written, so nothing is injected: No space left" in ran.output
    assert "injected" not in [e["what"] for e in ran.test["incidents"][0]["events"]]


def _wait_for(holds: Any) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nothing_heavy_is_imported_until_it_is_used() -> None:
    code = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import enginechaos.plugin, enginechaos.fixtures\n"
        "heavy = {'httpx', 'pydantic', 'starlette', 'uvicorn', 'jinja2', 'yaml', 'psutil'}\n"
        "sys.exit(', '.join(heavy & (set(sys.modules) - before)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_stand_in_is_the_process_it_says_it_is(world: World) -> None:
    found = stat(world.engine.ranks[1].pid)
    assert found is not None
    assert os.getpid() == found.parent
