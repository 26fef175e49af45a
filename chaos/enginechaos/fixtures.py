"""What tests are given: the target, the watchdog, receivers, load, and the life of a fault.

Each fixture is thin: what it sets up stands in `stage`, which is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from enginechaos.errors import ChaosError
from enginechaos.plugin import PLAN, keep_if_interrupted, record_of, run_of

if TYPE_CHECKING:
    from enginechaos.embedded import EmbeddedEngine
    from enginechaos.faults import Fault
    from enginechaos.induction import Induction, Inductions
    from enginechaos.load import Load
    from enginechaos.observer import Story
    from enginechaos.receivers import Receivers
    from enginechaos.run import Run
    from enginechaos.scene import Scene
    from enginechaos.target import Target
    from enginechaos.watchdog import Watchdog


@pytest.fixture(scope="session")
def chaos_run(pytestconfig: pytest.Config) -> Iterator[Run]:
    """The run: its folder, journal, undo file and budgets. Without it nothing can be tested, so
    what keeps it from beginning ends pytest."""
    from enginechaos import stage

    run = run_of(pytestconfig)
    context = stage.running(run)
    try:
        context.__enter__()
    except ChaosError as failure:
        pytest.exit(str(failure), returncode=int(pytest.ExitCode.USAGE_ERROR))
    try:
        yield run
    finally:
        context.__exit__(None, None, None)


@pytest.fixture(scope="module")
def engine(
    request: pytest.FixtureRequest, chaos_run: Run
) -> Iterator[Callable[..., EmbeddedEngine]]:
    """Start a simulated engine beside the target, such as a decoy that nobody watches:
    `engine("decoy", tensor_parallel=2).target`."""
    from enginechaos import stage

    with stage.engines(chaos_run, _name(request)) as start:
        yield start


@pytest.fixture(scope="module")
def target(
    request: pytest.FixtureRequest, chaos_run: Run, engine: Callable[..., EmbeddedEngine]
) -> Target:
    """What is broken: the deployment of --target, or a simulated engine of this module's own."""
    from enginechaos import stage

    marker = request.node.get_closest_marker("engine")
    name = _name(request).removeprefix("test_").replace("_", "-")
    return stage.target_of(chaos_run, engine, name, marker.kwargs if marker else {})


@pytest.fixture(scope="module")
def receivers(chaos_run: Run) -> Iterator[Receivers]:
    """Where pages arrive: real HTTP servers that enforce what the providers document."""
    from enginechaos import stage

    with stage.receivers_of(chaos_run) as made:
        yield made


@pytest.fixture(scope="module")
def load(chaos_run: Run, target: Target) -> Iterator[Load]:
    """A steady mixed load on the target, from the start of the module to its end."""
    from enginechaos import stage

    with stage.load_of(chaos_run, target) as made:
        yield made


@pytest.fixture(scope="module")
def watchdog(
    request: pytest.FixtureRequest, chaos_run: Run, target: Target, receivers: Receivers
) -> Iterator[Watchdog]:
    """The watchdog under test: started for this module, or the one that the target file names."""
    from enginechaos import stage

    with stage.watchdog_of(chaos_run, target, receivers, _name(request)) as made:
        yield made


@pytest.fixture
def scene(
    request: pytest.FixtureRequest,
    chaos_run: Run,
    target: Target,
    receivers: Receivers,
    load: Load,
    watchdog: Watchdog,
) -> Iterator[Scene]:
    """All of it together, and the observer that keeps the story of each alert."""
    from enginechaos import stage

    record = record_of(request.node)
    context = stage.scene_of(
        chaos_run, record, target=target, receivers=receivers, load=load, watchdog=watchdog
    )
    with context as made:
        yield made
    keep_if_interrupted(request.node)


@pytest.fixture
def inductions(scene: Scene) -> Inductions:
    """The faults of this test, one after the other."""
    from enginechaos.induction import Inductions

    return Inductions(scene)


@pytest.fixture
def induce(
    request: pytest.FixtureRequest, chaos_run: Run, scene: Scene, inductions: Inductions
) -> Callable[[Fault], Induction]:
    """`with induce(fault): ...`: the fault is there inside the block, and undone after it."""

    def begin(fault: Fault) -> Induction:
        if chaos_run.dry_run:
            radius = fault.blast_radius(scene.target)
            request.node.user_properties.append((PLAN, f"{fault.name}: {radius}"))
            pytest.skip("dry run: nothing is induced")
        return inductions.begin(fault)

    return begin


@pytest.fixture
def expect_page(inductions: Inductions) -> Callable[..., Story]:
    """`expect_page("collective_hang", within=15)`, in the block of `induce`."""

    def paged(verdict: str, **expected: Any) -> Story:
        return inductions.current().expect_page(verdict, **expected)

    return paged


@pytest.fixture
def expect_silence(inductions: Inductions) -> Callable[[float], None]:
    """`expect_silence(30)`, in the block of `induce`: no page for so many seconds."""
    return lambda seconds: inductions.current().expect_silence(seconds)


@pytest.fixture
def expect_quiet(
    request: pytest.FixtureRequest, scene: Scene, inductions: Inductions
) -> Callable[[], None]:
    """`expect_quiet()`, in the block of `induce`: no page for the seconds of --quiet-for. Each
    minute says how it stands, past pytest's capture: an hour without a word looks like a hang."""
    from enginechaos.quiet import stay_quiet

    seconds = request.config.option.chaos_quiet_for
    return lambda: stay_quiet(inductions.current(), scene, seconds, _teller(request.config))


@pytest.fixture
def baseline(chaos_run: Run, scene: Scene) -> Callable[..., None]:
    """`baseline(SERIES)`: wait until the watchdog has a series that a rule compares with, such
    as a quiet hour's latency. What has not been seen yet can't be told from a fault."""

    def wait(series: str, within: float = 120.0) -> None:
        if not chaos_run.dry_run:
            scene.wait_for_series(series, within)

    return wait


def _teller(config: pytest.Config) -> Callable[[str], None]:
    """Writes a line to the terminal; a worker of pytest-xdist has none."""
    capture = config.pluginmanager.getplugin("capturemanager")
    terminal = config.pluginmanager.getplugin("terminalreporter")

    def tell(line: str) -> None:
        if terminal is None or capture is None or hasattr(config, "workerinput"):
            return
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(line, flush=True)

    return tell


def _name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).rpartition("/")[2].removesuffix(".py")
