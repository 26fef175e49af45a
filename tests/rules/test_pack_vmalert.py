"""vmalert accepts every file of the pack.

Debian's vmalert 1.79 is older than `keep_firing_for` and refuses it, so it gets a
copy without that key; nothing else is changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from enginewatch.rulepack import rule_files

VMALERT = shutil.which("vmalert")
TOO_NEW = re.compile(r"^ *keep_firing_for: .*\n", re.MULTILINE)

pytestmark = pytest.mark.skipif(
    VMALERT is None, reason="vmalert is missing: apt-get install victoria-metrics"
)


def dry_run(*paths: Path) -> subprocess.CompletedProcess[str]:
    files = [f"-rule={path}" for path in paths]
    command = [str(VMALERT), "-dryRun", *files]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_vmalert_finds_nothing_wrong(tmp_path: Path) -> None:
    copies = []
    for path in rule_files():
        copy = tmp_path / f"{path.parent.name}-{path.name}"
        copy.write_text(TOO_NEW.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
        copies.append(copy)
    done = dry_run(*copies)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_would_tell_what_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("groups: [{name: g, rules: [{record: a, expr: 'sum by (x) ('}]}]\n")
    assert dry_run(wrong).returncode != 0
