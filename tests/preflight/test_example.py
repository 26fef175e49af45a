"""The files of --example, and the README's commands on them, run as they are written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.preflight.test_deploy import parsed

from enginewatch.cli import main
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.example import COMMANDS, FOLDER, write_example
from enginewatch.preflight.inputs import Inputs, gather

README = Path(__file__).parents[2] / "README.md"
FOUND = {
    "--engine-dir": "EW-ARCH-001",
    "--script": "EW-PREFILL-001",
    "--manifest": "EW-LAUNCH-015",
    "--model": "EW-QUALITY-005",
}
"""By the first option, a finding that the README's remark is about."""


def readme_blocks() -> list[list[list[str]]]:
    """The commands of each console block of the section, word by word."""
    text = README.read_text(encoding="utf-8")
    section = text.partition("\n## Preflight\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    lines = [re.findall(r"^\$ (enginewatch .*)", block, re.MULTILINE) for block in blocks]
    return [[shlex.split(line, comments=True) for line in block] for block in lines]


def readme_commands() -> list[list[str]]:
    """Those that run on the example."""
    return readme_blocks()[0]


def test_every_command_of_the_section_exists() -> None:
    for words in (words for block in readme_blocks() for words in block):
        parsed(words[: words.index("&&")] if "&&" in words else words)


def test_the_readme_begins_with_the_example() -> None:
    first, *rest = readme_commands()
    assert first[:3] == ["enginewatch", "preflight", "--example"]
    assert first[3:] == ["&&", "cd", FOLDER]
    assert {words[2] for words in rest} == set(FOUND)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write_example(tmp_path)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("words", readme_commands()[1:], ids=lambda words: words[2])
def test_every_command_of_the_readme_refuses_what_is_wrong(
    words: list[str],
    example: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert ended.value.code == 1, told
    assert re.search(rf"^(FATAL|DEGRADED) +{FOUND[words[2]]} ", told.out, re.MULTILINE), told.out


def test_the_numbers_in_the_readme_are_those_of_the_report(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", readme_commands()[-1])
    with pytest.raises(SystemExit):
        main()
    out = " ".join(capsys.readouterr().out.split())
    assert "change -9.30% to -6.41% (95% interval)" in out
    assert "fell by 7.7 percentage points" in out


@pytest.mark.parametrize("options", COMMANDS)
def test_what_the_command_proposes_can_be_read(options: str, example: Path) -> None:
    words = shlex.split(options)
    given: dict[str, tuple[str, ...]] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        given[name] = (*given.get(name, ()), value)
    facts = gather(Inputs(given))
    assert not facts.unread


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_example(tmp_path)
    with pytest.raises(PreflightError, match="take it away first"):
        write_example(tmp_path)
