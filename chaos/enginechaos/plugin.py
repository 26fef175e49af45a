"""The pytest plugin: options, markers, and results that say INCONCLUSIVE.

Loaded by every pytest of an environment that has it, so it imports little until it is used.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from enginechaos import options, outcomes
from enginechaos.errors import ChaosError
from enginechaos.journal import Record

if TYPE_CHECKING:
    from enginechaos.run import Run

pytest_plugins = ["enginechaos.fixtures"]

RUN: Final = pytest.StashKey["Run"]()
PLAN: Final = "enginechaos-plan"
SIDE_BY_SIDE: Final = 5
"""Files at a time: each has an engine, a watchdog and a load, which take a third of a core."""
RECORD: Final = pytest.StashKey[Record]()
FOLDER: Final = "enginechaos_folder"
"""By which pytest-xdist's workers are told the folder of the run that they are a part of."""

MARKERS: Final = (
    "hazard(verdict, certifies='', but_not=''): what is induced, and what a pass says of it",
    "engine(**settings): of the simulated engine that a module's tests get",
    "tiers(*names): where it can run (sim, vllm-cpu, gpu, staging); anywhere if left out",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if config.option.chaos_target is not None:
        _look_at_target_file(config)
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_Workers(), "enginechaos-workers")


def _look_at_target_file(config: pytest.Config) -> None:
    from enginechaos import staging

    path = Path(config.option.chaos_target)
    try:
        file = staging.read(path)
        if not config.option.chaos_dry_run:
            staging.refuse_production(file, config.option.chaos_i_mean, str(path))
    except ChaosError as failure:
        raise pytest.UsageError(str(failure)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The whole suite mostly waits: where pytest-xdist is there, run its files side by side."""
    option = config.option
    if hasattr(config, "workerinput"):
        return
    asked = getattr(option, "numprocesses", 0) is not None or option.tx
    alone = option.chaos_dry_run or option.chaos_target is not None or option.collectonly
    some = option.keyword or option.usepdb
    if asked or alone or some or not _is_whole_suite(config):
        return
    option.numprocesses, option.dist = SIDE_BY_SIDE, "loadfile"
    option.tx = ["popen"] * SIDE_BY_SIDE
    # In the order of the suite's conftest.py, and not by how many tests a file has.
    option.loadscopereorder = False


def _is_whole_suite(config: pytest.Config) -> bool:
    """Whether nothing but all of the shipped suite was asked for."""
    suite = Path(__file__).parent / "suite"
    folders = {suite, suite.parent, suite.parent.parent}
    named = {"enginechaos", "enginechaos.suite"} if config.option.pyargs else set()
    base = config.invocation_params.dir
    return bool(config.args) and all(
        arg in named or ((base / arg).resolve() in folders and (base / arg).name != "site-packages")
        for arg in config.args
    )


class _Workers:
    """Tells pytest-xdist's workers the run's folder; what they keep there is summed up here."""

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[FOLDER] = str(run_of(node.config).folder)


def run_of(config: pytest.Config) -> Run:
    """The run of this pytest, made when it is first asked for."""
    from enginechaos import run, staging

    if RUN in config.stash:
        return config.stash[RUN]
    worker = getattr(config, "workerinput", None)
    base = Path(config.option.chaos_journal or config.invocation_params.dir / run.DEFAULT_FOLDER)
    folder = Path(worker[FOLDER]) if worker else run.new_run_folder(base.absolute(), time.time())
    target = config.option.chaos_target
    config.stash[RUN] = run.Run(
        folder=folder,
        seed=config.option.chaos_seed,
        dry_run=config.option.chaos_dry_run,
        staging=staging.read(Path(target)) if target is not None else None,
        command=["pytest", *map(str, config.invocation_params.args)],
        worker=worker["workerid"] if worker else "",
    )
    return config.stash[RUN]


def record_of(item: pytest.Item) -> Record:
    """The journal's record of a test."""
    if RECORD not in item.stash:
        marker = item.get_closest_marker("hazard")
        told = dict(marker.kwargs) if marker else {}
        item.stash[RECORD] = Record(
            item.nodeid,
            hazard=str(marker.args[0]) if marker and marker.args else "",
            certifies=str(told.get("certifies", "")),
            certifies_not=str(told.get("but_not", "")),
            started=time.time(),
        )
    return item.stash[RECORD]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with the reason, what may not or can't be induced at this target."""
    if item.get_closest_marker("hazard") is None:
        return
    record = record_of(item)
    run = run_of(item.config)
    tiers = item.get_closest_marker("tiers")
    tier = run.staging.tier if run.staging is not None else "sim"
    record.tier = tier
    if tiers is not None and tier not in tiers.args:
        pytest.skip(f"runs in {', '.join(tiers.args)} only")
    harmless = record.hazard == "benign"
    if run.staging is not None and not harmless and record.hazard not in run.staging.may_induce:
        pytest.skip(f"the target file's may_induce does not name {record.hazard}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    failure = call.excinfo.value if call.excinfo is not None else None
    outcome = outcomes.outcome_of(failure) if failure is not None else None
    if failure is not None and outcome is not None:
        # The message is written to be enough, and a traceback through this suite is not news.
        report.longrepr = f"{item.location[0]}: {type(failure).__name__}: {failure}"
        report.chaos_outcome = outcome  # type: ignore[attr-defined]
        report.user_properties.append(("enginechaos", outcome))
    if RECORD in item.stash and (report.when == "call" or report.outcome != "passed"):
        _keep(item, report, outcome, failure)
    return report


def _keep(
    item: pytest.Item,
    report: pytest.TestReport,
    outcome: str | None,
    failure: BaseException | None,
) -> None:
    """Write the test's record into the journal."""
    run = run_of(item.config)
    record = item.stash[RECORD]
    if run.dry_run or (record.outcome and report.when == "teardown" and record.outcome != "passed"):
        return
    broken = "failed" if report.when == "call" else "error"
    record.outcome = outcome or (broken if report.failed else report.outcome)
    record.reason = "" if failure is None else str(failure)
    record.finished = time.time()
    try:
        run.journal.keep(record)
    except ChaosError as trouble:
        report.sections.append(("enginechaos", str(trouble)))


def keep_if_interrupted(item: pytest.Item) -> None:
    """Write down a test that Ctrl-C ended: it is torn down, and has no report."""
    record, run = record_of(item), run_of(item.config)
    if record.outcome or run.dry_run:
        return
    record.outcome, record.reason, record.finished = "error", "interrupted", time.time()
    with contextlib.suppress(ChaosError):
        run.journal.keep(record)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    match getattr(report, "chaos_outcome", None):
        case "inconclusive":
            return "inconclusive", "I", ("INCONCLUSIVE", {"yellow": True})
        case "error":
            return "error", "E", ("ERROR", {"red": True})
    return None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    # Workers come here too, while the others are still at work.
    if RUN not in config.stash or hasattr(config, "workerinput"):
        return
    run, out = config.stash[RUN], terminalreporter
    if run.dry_run:
        out.section("chaos: the plan; nothing was touched")
        for report in out.getreports("skipped"):
            for plan in (value for key, value in report.user_properties if key == PLAN):
                out.line(f"{report.nodeid}\n    {plan}")
        return
    try:
        for said in run.settle_all():
            out.line(f"undone after the tests: {said}")
        path = run.finish()
        records = run.journal.records()
    except ChaosError as failure:
        out.section("chaos")
        out.line(str(failure), red=True)
        return
    if path is None:
        return
    out.section(f"chaos: seconds from the fault, seed {run.seed}")
    for line in outcomes.table(records):
        out.line(line)
    for record in records:
        if record.outcome == "inconclusive":
            out.line(f"INCONCLUSIVE {record.id}: {record.reason}", yellow=True)
    out.line(f"page: {run.folder / 'report.html'}")
