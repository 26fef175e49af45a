"""Where the shipped rules are: in a checkout, an editable install, or a wheel.

```
engines/*.yml      recording rules, one file an engine
hazards/*.yml      alerting rules, one file a verdict; *.test.yml beside each
runbooks/*.md      one a verdict
```
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Final

from enginewatch.errors import EnginewatchError

_PACKAGED: Final = "_rules"
"""The folder's name inside a wheel (`pyproject.toml`, force-include)."""

_RULE_FOLDERS: Final = ("engines", "hazards")
_TEST_SUFFIX: Final = ".test.yml"


class RulePackError(EnginewatchError):
    """The shipped rules can't be found: a broken installation."""


def rules_path() -> Path:
    """The folder of the shipped rules. Raises RulePackError when there is none."""
    package = Path(str(resources.files("enginewatch")))
    packaged = package / _PACKAGED
    checkout = package.parent.parent / "rules"
    for folder in (packaged, checkout):
        if (folder / "hazards").is_dir():
            return folder
    raise RulePackError(
        "the shipped rules are missing",
        where=f"{packaged} and {checkout}",
        hint="reinstall enginewatch, or name your own rule files in the configuration",
    )


def rule_files(root: Path | None = None) -> tuple[Path, ...]:
    """The pack's rule files, those of engines first: alerts read what these record."""
    root = root or rules_path()
    return tuple(
        path
        for folder in _RULE_FOLDERS
        for path in sorted((root / folder).glob("*.yml"))
        if not path.name.endswith(_TEST_SUFFIX)
    )


def runbook(alert: str, verdict: str = "", root: Path | None = None) -> Path | None:
    """The page on an alert, else the one on its verdict, if the pack has either.

    `StuckEngine` is found as `StuckEngine.md` or `stuck_engine.md`.
    """
    root = root or rules_path()
    for name in (alert, _snake(alert), verdict):
        path = root / "runbooks" / f"{name}.md"
        # A name with a separator in it would leave the folder.
        if name and path.name == f"{name}.md" and path.is_file():
            return path
    return None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
