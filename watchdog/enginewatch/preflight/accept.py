"""Known findings that somebody accepts, for a while and for a reason.

```yaml
accept:
  - code: EW-ARCH-004
    where: models/rank0.engine     # optional: only findings whose evidence names it
    reason: canary pool only, the rebuild is scheduled
    until: 2027-01-31
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.yamlnodes import Document
from enginewatch.evidence.yamlread import ValueReader
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.finding import Finding
from enginewatch.yamltext import closest

_KEYS: Final = ("code", "where", "reason", "until")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """In force to the end of the day `until`, in UTC. `place` is where it stands in its file."""

    code: str
    where: str
    reason: str
    until: date
    place: str

    def covers(self, finding: Finding) -> bool:
        if finding.code != self.code:
            return False
        texts = [each.source for each in finding.evidence]
        return not self.where or any(self.where in text for text in texts)


def read_accepted(text: str, path: str, codes: Iterable[str]) -> tuple[Acceptance, ...]:
    """The acceptances in a file. Raises PreflightError with every problem, each with its place."""
    known = sorted(codes)
    try:
        reader = _AcceptReader(Document(text, path))
    except RuleError as failure:
        raise PreflightError(str(failure), where="--accept") from None
    found = tuple(reader.acceptances(known))
    if reader.problems:
        raise PreflightError("\n".join(map(str, reader.problems)))
    return found


class _AcceptReader(ValueReader):
    def acceptances(self, known: Sequence[str]) -> Iterator[Acceptance]:
        root = self.document.root
        if root is None:
            return
        top = self.mapping(root, "the file of acceptances", ("accept",))
        if "accept" not in top:
            if not self.problems:
                self.problem("the file has no `accept`", root, hint="a list of code, reason, until")
            return
        for index, node in enumerate(self.sequence(top["accept"].value, "accept"), 1):
            what = f"acceptance {index}"
            given = self.mapping(node, what, _KEYS)
            code = self.required(given, "code", what, node)
            reason = self.required(given, "reason", what, node)
            until = self.required(given, "until", what, node)
            if code and code not in known:
                hint = closest(code, known)
                self.problem(f"{what}: no finding has the code {code}", node, hint=hint)
            try:
                day = date.fromisoformat(until) if until else date.max
            except ValueError:
                hint = "a day like 2027-01-31"
                self.problem(f"{what}: until: {until!r} is not a date", node, hint=hint)
                continue
            where = self.text_of(given, "where", what)
            yield Acceptance(code, where, reason, day, self.document.where(node))


def accept(
    findings: Iterable[Finding], accepted: Sequence[Acceptance], today: date
) -> Iterator[Finding]:
    """The findings, those that are accepted marked so. One whose acceptance has expired counts
    again, and says so."""
    for finding in findings:
        covering = [each for each in accepted if each.covers(finding)]
        in_force = next((each for each in covering if each.until >= today), None)
        if in_force is not None:
            yield replace(finding, accepted=in_force.reason, note=f"until {in_force.until}")
        elif covering:
            last = max(covering, key=lambda each: each.until)
            note = f"was accepted until {last.until} ({last.reason}; {last.place}): expired"
            yield replace(finding, note=note)
        else:
            yield finding
