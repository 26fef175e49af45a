"""The command line in the tests' own process: a new one takes a second to import everything."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from enginewatch.cli import main


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


def console_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("rules", "check", cwd=…)`, as the console script does it."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr(root, "level", root.level)

    def run(*arguments: str, cwd: Path | None = None) -> Done:
        monkeypatch.setattr(sys, "argv", ["enginewatch", *arguments])
        if cwd is not None:
            monkeypatch.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return Done(int(ended.value.code or 0), told.out, told.err)

    return run
