"""A journal as one HTML page that needs nothing else: figures, pictures, and what they mean.

What names and messages hold is escaped everywhere, and the page forbids itself scripts.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from enginechaos.errors import ChaosError
from enginechaos.journal import OUTCOMES, Incident, Record
from enginechaos.picture import timeline

TEMPLATE: Final = "report.html.j2"


def page(facts: Mapping[str, Any], records: Sequence[Record]) -> str:
    """The whole page."""
    counted = Counter(record.outcome for record in records)
    counts = ", ".join(f"{counted[each]} {each}" for each in OUTCOMES if counted[each])
    known = {"run": "", "started": 0.0, "finished": 0.0, "versions": {}, "command": [], "seed": 0}
    return _template().render(facts={**known, **facts}, records=records, counts=counts or "no test")


def write(facts: Mapping[str, Any], records: Sequence[Record], path: Path) -> None:
    """Raises ChaosError where the disk does not take it."""
    try:
        path.write_text(page(facts, records), encoding="utf-8")
    except OSError as failure:
        raise ChaosError(f"can't be written: {failure.strerror}", where=str(path)) from None


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "clock": lambda at: time.strftime("%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 10)}",
        "moment": lambda at: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)),
        "repeat": _repeat,
        "test_name": lambda node: str(node).rpartition("::")[2],
        # Its own parts are escaped there.
        "timeline": lambda incident: Markup(timeline(incident)),  # noqa: S704
        "took": _took,
        "words": lambda what: str(what).replace("_", " "),
    }
    text = resources.files("enginechaos").joinpath(TEMPLATE).read_text("utf-8")
    return environment.from_string(text)


def _took(incident: Incident | None, step: str) -> Markup | str:
    if incident is None or step not in incident.figures:
        return "-"
    took, budget = incident.figures[step], incident.budget.get(step)
    if budget is None:
        return f"{took:.1f}"
    shown = Markup("{} of {}").format(f"{took:.1f}", f"{budget:g}")
    return Markup('<span class="over">{}</span>').format(shown) if took > budget else shown


def _repeat(record: Record, facts: Mapping[str, Any]) -> str:
    """The command that runs this one test under the same conditions."""
    given = [str(each) for each in facts.get("command", ())]
    kept: list[str] = []
    for flag in ("--chaos-target", "--target", "--chaos-i-mean", "--i-mean"):
        if flag in given[:-1]:
            kept += [flag, given[given.index(flag) + 1]]
        kept += [each for each in given if each.startswith(f"{flag}=")]
    return shlex.join(["pytest", record.id, *kept, "--chaos-seed", str(facts.get("seed", 0))])
