"""The wheel, installed in an empty environment away from the tree, works with its rules."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUITE = ROOT / "chaos" / "enginechaos" / "suite"
FLOOD = ROOT / "tests" / "data" / "vllm-prefill-flood.prom.xz"

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh environment that has the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT), cwd=folder)
    (wheel,) = folder.glob("enginewatch-*.whl")
    venv.create(folder / "env", with_pip=True)
    binaries = folder / "env" / "bin"
    run(str(binaries / "python"), "-m", "pip", "install", "--quiet", f"{wheel}[chaos]", cwd=folder)
    return binaries


def test_the_command_and_the_rules_come_with_it(installed: Path, tmp_path: Path) -> None:
    command = str(installed / "enginewatch")
    assert run(command, "--version", cwd=tmp_path).startswith("enginewatch ")
    rules = Path(run(command, "rules", "path", cwd=tmp_path).strip())
    assert rules.is_relative_to(installed.parent)
    names = {path.relative_to(ROOT / "rules") for path in (ROOT / "rules").rglob("*.*")}
    assert {path.relative_to(rules) for path in rules.rglob("*.*")} == names
    assert "no errors" in run(command, "rules", "check", cwd=tmp_path)


def test_the_chaos_suite_comes_with_it(installed: Path, tmp_path: Path) -> None:
    """All of it is planned, and one hazard is induced for real."""
    python = str(installed / "python")
    planned = run(python, "-m", "enginechaos", "plan", cwd=tmp_path)
    files = {path.name for path in SUITE.glob("test_*.py")}
    assert all(name in planned for name in files)
    hang = ["--pyargs", "enginechaos.suite.test_collective_hang"]
    told = run(python, "-m", "pytest", *hang, "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in told
    (page,) = tmp_path.glob(".enginechaos/*/report.html")
    assert "<svg" in page.read_text()
    assert "nothing to undo" in run(str(installed / "enginechaos"), "undo", cwd=tmp_path)


def test_it_replays_a_recording(installed: Path, tmp_path: Path) -> None:
    told = run(str(installed / "enginewatch"), "replay", str(FLOOD), cwd=tmp_path)
    assert "EnginePrefillStarvation" in told
    assert told.splitlines()[-1] == "1 alert fired, 1 resolved"
