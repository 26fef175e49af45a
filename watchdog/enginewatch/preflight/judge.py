"""Samples and rules in, findings out: the same evaluation as of `diagnose`, once.

An alert of `rules/preflight/*.yml` carries:

```
labels:       code        EW-ARCH-001, stable for ever, of one alert only
              verdict     one of rules/signatures/verdicts.yml
              severity    fatal and degraded refuse the rollout; warn and info do not
              confidence  definite or suspect
              unknown     "yes": says that something could not be determined
annotations:  title       what the rule looks at, in words without a value: told when it passes
              summary, advice, source
              judges      optional: the series whose presence means that there was something to
                          judge, where the rule's own are there only when something is wrong
              fields, derived_NAME: as in evidence/alerts.py
```

Rules may record series of their own (`preflight:…:…`). A field whose value is a number is a
`diagnose:field` record with `of` (the alert's name), `field` and `as`. Those alerts of
`rules/diagnose/configurations.yml` that have a code are judged too, and are findings of the check
`architecture`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from enginewatch.alerting.dormant import awake
from enginewatch.alerting.rules import AlertingRule, RecordingRule, RuleFile, load_rule_files
from enginewatch.evidence.alerts import findings_of_alerts
from enginewatch.evidence.pack import VerdictRule, load_verdicts
from enginewatch.evidence.signatures import Confidence, Severity
from enginewatch.evidence.timeline import Judgement, Rules, Timeline, judge_timeline
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import METRIC_NAME, Labels, Sample, matches_all
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.observe import Observed, observed
from enginewatch.promql.ast import VectorSelector
from enginewatch.promql.check import may_select
from enginewatch.rulepack import rules_path

_PLACE: Final = re.compile(r"(.+?):([1-9]\d{0,8})(?::\d+)?", re.DOTALL)
_TEST_SUFFIX: Final = ".test.yml"
RULE_FAILED: Final = "enginewatch_preflight_rule_failed"
_SHARED: Final = Path("diagnose") / "configurations.yml"
_SHARED_CHECK: Final = "architecture"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """What is known of an alert before it fires."""

    code: str
    check: str
    title: str
    alert: AlertingRule
    judges: str = ""

    @property
    def unknown(self) -> bool:
        """Whether it says, when it fires, that something could not be determined. That all is
        known which such a rule asks for is no judgement of the rollout."""
        return self.alert.label("unknown") == "yes"


@dataclass(frozen=True, slots=True)
class PreflightRules:
    """The rules by name of their alert, and what is needed to read the alerts."""

    files: tuple[RuleFile, ...]
    rules: Mapping[str, Rule]
    verdicts: Mapping[str, VerdictRule]

    def only(self, checks: Collection[str]) -> PreflightRules:
        """These checks and no others, for a command that gives facts for no more."""
        return PreflightRules(
            tuple(file for file in self.files if Path(file.path).stem in checks),
            {name: rule for name, rule in self.rules.items() if rule.check in checks},
            self.verdicts,
        )

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(rule.code for rule in self.rules.values())

    @property
    def checks(self) -> tuple[str, ...]:
        return tuple(sorted({rule.check for rule in self.rules.values()}))


@dataclass(frozen=True, slots=True)
class Judged:
    """`passed` had all that they need to speak, and did not; `silent` had nothing to judge."""

    findings: tuple[Finding, ...]
    passed: tuple[Rule, ...]
    silent: tuple[Rule, ...]


@cache
def shipped_preflight() -> PreflightRules:
    """Those of the pack. Raises RuleFileError, SignatureError."""
    return load_preflight(rules_path())


def load_preflight(root: Path) -> PreflightRules:
    """The rules of preflight under a folder of rules. Raises RuleFileError, SignatureError."""
    paths = [p for p in sorted((root / "preflight").glob("*.yml")) if not _is_test(p)]
    own, (shared,) = load_rule_files(paths), load_rule_files([root / _SHARED])
    files = (*own, _with_codes(shared))
    rules = {rule.alert.name: rule for file in files for rule in _rules(file)}
    return PreflightRules(files, rules, load_verdicts(root))


def _with_codes(file: RuleFile) -> RuleFile:
    """The other alerts are for `diagnose`, which knows of one GPU and one runtime only."""
    groups = (
        replace(group, rules=tuple(r for r in group.rules if r.labels.get("code") is not None))
        for group in file.groups
    )
    return RuleFile(file.path, tuple(groups))


def _is_test(path: Path) -> bool:
    return path.name.endswith(_TEST_SUFFIX)


def _rules(file: RuleFile) -> Iterator[Rule]:
    path = Path(file.path)
    check = _SHARED_CHECK if path.parts[-2:] == _SHARED.parts else path.stem
    for group in file.groups:
        for rule in group.rules:
            if isinstance(rule, AlertingRule) and rule.label("code"):
                notes = {name: note.text for name, note in rule.annotations.items()}
                title, judges = notes.get("title", rule.name), notes.get("judges", "")
                yield Rule(rule.label("code"), check, title, rule, judges)


def judge(observations: Iterable[Observed], rules: PreflightRules) -> Judged:
    """What the rules say of the samples, worst first.

    A rule that can't be evaluated on them is judged in turn, as a sample: what it would have
    said is missing, so nothing may pass without a word.
    """
    timeline = _timeline(observations)
    kinds = Rules(shipped=(), diagnose=rules.files)
    judgement = judge_timeline(timeline, kinds)
    if judgement.failures:
        failed = (observed(RULE_FAILED, 1, None, what=what) for what in judgement.failures)
        timeline.add("failures", 0, _samples(failed, timeline))
        judgement = judge_timeline(timeline, kinds)
    findings = sorted(_findings(judgement, timeline, rules), key=_order)
    fired = {finding.code for finding in findings}
    names = {sample.labels.name for each in timeline.rounds for sample in each.samples}
    could = _could_speak(rules.files, timeline)
    quiet = [rule for rule in rules.rules.values() if rule.code not in fired]
    passed = [rule for rule in quiet if rule.alert in could or rule.judges in names]
    silent = [rule for rule in quiet if rule not in passed]
    return Judged(tuple(findings), tuple(passed), tuple(silent))


def _timeline(observations: Iterable[Observed]) -> Timeline:
    timeline = Timeline("preflight")
    found = _samples(observations, timeline)
    if found:
        timeline.add("preflight", 0, found)
    return timeline


def _samples(observations: Iterable[Observed], timeline: Timeline) -> Collection[Sample]:
    """Each series once, its evidence noted in the timeline."""
    found: dict[Labels, Sample] = {}
    for each in observations:
        labels = Labels(each.labels, **{METRIC_NAME: each.name})
        if each.evidence is not None:
            labels = labels.with_(line=_noted(timeline.lines, _placed(each.evidence)))
        found.setdefault(labels, Sample(labels, each.value))
    return found.values()


def _noted(lines: dict[str, Evidence], evidence: Evidence) -> str:
    """The value of the label `line` that stands for this evidence from now on."""
    line = f"{evidence.source}:{evidence.line}"
    # Two facts of one place tell themselves apart by what they say.
    if lines.setdefault(line, evidence) != evidence:
        line = f"{line} {evidence.text}"
        lines.setdefault(line, evidence)
    return line


def _placed(evidence: Evidence) -> Evidence:
    """Records write their place as `file:line` or `--command:line`; options' values have colons
    of their own, and URLs."""
    found = _PLACE.fullmatch(evidence.source)
    if evidence.line or found is None or "://" in found[1]:
        return evidence
    if found[1].startswith("-") and " " in found[1]:
        return evidence
    return Evidence(found[1], int(found[2]), evidence.text)


def _findings(judgement: Judgement, timeline: Timeline, rules: PreflightRules) -> Iterator[Finding]:
    for alert, at in judgement.alerts:
        rule = rules.rules.get(alert.name)
        if rule is None:
            continue
        one = Judgement(((alert, at),), judgement.fields, ())
        for read in findings_of_alerts(one, timeline, rules.verdicts):
            yield Finding(
                code=rule.code,
                check=rule.check,
                title=rule.title,
                verdict=read.verdict,
                severity=read.severity,
                confidence=read.confidence,
                summary=read.summary,
                advice=read.advice or rules.verdicts[read.verdict].advice,
                source=alert.annotations.get("source", ""),
                fields={**_plain(read.derived), **read.fields},
                evidence=read.evidence,
                unknown=rule.unknown,
            )


def _plain(derived: Mapping[str, object]) -> dict[str, str | int | float | bool | None]:
    """Those of an alert are values; only signatures have expressions."""
    return {
        name: value
        for name, value in derived.items()
        if value is None or isinstance(value, str | int | float | bool)
    }


def _order(finding: Finding) -> tuple[float, bool, str, str]:
    """Worst first; what is unknown comes after what warns, and before what is only told."""
    weight = -Severity.WARN.weight + 0.5 if finding.unknown else -finding.severity.weight
    suspect = finding.confidence is not Confidence.DEFINITE
    return (weight, suspect, finding.code, finding.summary)


def _could_speak(files: Sequence[RuleFile], timeline: Timeline) -> set[AlertingRule]:
    """The alerts whose every input is there, by name and labels; what rules record is there if
    they could speak themselves."""
    found: dict[str, list[Labels]] = {}
    for each in timeline.rounds:
        for sample in each.samples:
            found.setdefault(sample.labels.name, []).append(sample.labels)
    rules = [rule for file in awake(files, found) for group in file.groups for rule in group.rules]
    recorded: set[str] = set()

    def selects(selector: VectorSelector) -> bool:
        if selector.name in recorded:
            return True
        return any(matches_all(each, selector.matchers) for each in found.get(selector.name, ()))

    while True:
        could = [rule for rule in rules if may_select(rule.expr, selects)]
        more = {rule.name for rule in could if isinstance(rule, RecordingRule)} - recorded
        if not more:
            return {rule for rule in could if isinstance(rule, AlertingRule)}
        recorded |= more
