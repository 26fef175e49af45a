"""One incident, one page: what explains what, and what is never muted."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from enginewatch.alerting.rules import AlertingRule, load_rule_files
from enginewatch.config import parse_config, parse_matchers
from enginewatch.model import Alert, Labels, matches_all
from enginewatch.notify.inhibit import (
    LINGER,
    Inhibitor,
    InhibitRule,
    inhibit_rules,
    shipped_rules,
)
from enginewatch.rulepack import rule_files, rules_path

DEAD = Labels(alertname="EngineDown", verdict="engine_dead", severity="page", deployment="d")
SLOW = Labels(verdict="prefill_starvation", severity="page", deployment="d", instance="b")


def rule(source: str, target: str, *equal: str) -> InhibitRule:
    return InhibitRule(parse_matchers(source), parse_matchers(target), equal)


def muted(inhibitor: Inhibitor, labels: Labels, now: int = 1_000_000) -> tuple[Labels, ...]:
    return inhibitor.inhibited_by(Alert(labels, {}, 1.0, 0, fired_at=500), now)


def shipped() -> Inhibitor:
    return Inhibitor(inhibit_rules(parse_config("", Path("e.yml"))))


def test_a_source_mutes_its_target_while_it_fires() -> None:
    inhibitor = Inhibitor([rule('a="s"', 'a="t"', "d")])
    target, source = Labels(a="t", d="x"), Labels(a="s", d="x", more="y")
    assert muted(inhibitor, target) == ()
    inhibitor.fires(source)
    assert muted(inhibitor, target) == (source,)
    assert muted(inhibitor, Labels(a="t", d="other")) == ()
    assert muted(inhibitor, Labels(a="u", d="x")) == ()
    inhibitor.ends(source, 1_000)
    assert muted(inhibitor, target) == ()


def test_an_inhibition_outlives_its_source_for_what_fired_before_that_ended() -> None:
    inhibitor = Inhibitor([rule('a="s"', 'a="t"')])
    inhibitor.fires(Labels(a="s"))
    inhibitor.ends(Labels(a="s"), 600)
    later = Alert(Labels(a="t"), {}, 1.0, 0, fired_at=601)
    assert muted(inhibitor, Labels(a="t"), 600 + LINGER)
    assert not muted(inhibitor, Labels(a="t"), 601 + LINGER)
    assert not inhibitor.inhibited_by(later, 601)
    inhibitor.forget(600 + LINGER)
    assert muted(inhibitor, Labels(a="t"), 700)
    inhibitor.forget(601 + LINGER)
    assert not muted(inhibitor, Labels(a="t"), 700)


def test_a_source_that_fires_again_inhibits_again() -> None:
    inhibitor = Inhibitor([rule('a="s"', 'a="t"')])
    for _ in range(2):
        inhibitor.fires(Labels(a="s"))
        inhibitor.ends(Labels(a="s"), 600)
    inhibitor.fires(Labels(a="s"))
    inhibitor.forget(600 + 2 * LINGER)
    assert muted(inhibitor, Labels(a="t"), 600 + 2 * LINGER)


def test_labels_missing_on_both_sides_are_equal() -> None:
    inhibitor = Inhibitor([rule('a="s"', 'a="t"', "d", "e")])
    inhibitor.fires(Labels(a="s"))
    assert muted(inhibitor, Labels(a="t"))
    assert not muted(inhibitor, Labels(a="t", e="x"))


def test_what_is_on_both_sides_is_not_muted_by_its_like() -> None:
    inhibitor = Inhibitor([rule('a=~"s|both"', 'a=~"t|both"')])
    both = Labels(a="both", n="1")
    inhibitor.fires(both)
    inhibitor.fires(Labels(a="both", n="2"))
    assert muted(inhibitor, both) == ()
    assert muted(inhibitor, Labels(a="t"))
    inhibitor.fires(Labels(a="s"))
    assert muted(inhibitor, both) == (Labels(a="s"),)


@pytest.mark.parametrize("seed", range(20))
def test_the_index_answers_as_a_search_of_all_alerts_would(seed: int) -> None:
    rng = random.Random(seed)
    pick = lambda: rng.choice(["", "a", "b"])  # noqa: E731
    rules = [
        rule(
            f'x=~"{pick()}|{pick()}"', f'x!="{pick()}"', *rng.sample(["y", "z"], rng.randint(0, 2))
        )
        for _ in range(3)
    ]
    inhibitor = Inhibitor(rules)
    firing: list[Labels] = []
    for _ in range(60):
        labels = Labels(x=pick(), y=pick(), z=pick())
        if labels in firing:
            firing.remove(labels)
            inhibitor.ends(labels, 1_000)
        else:
            firing.append(labels)
            inhibitor.fires(labels)
        target = Labels(x=pick(), y=pick(), z=pick())
        expected = any(
            matches_all(target, one.target)
            and matches_all(source, one.source)
            and one.key(source) == one.key(target)
            and not (matches_all(target, one.source) and matches_all(source, one.target))
            for one in rules
            for source in firing
        )
        assert bool(muted(inhibitor, target)) is expected


# The shipped rules.


def test_a_dead_engine_mutes_its_deployments_latency_and_its_own_hangs() -> None:
    inhibitor = shipped()
    inhibitor.fires(DEAD.with_(instance="a"))
    stuck = Labels(verdict="stuck_engine", severity="page", deployment="d", instance="a")
    assert muted(inhibitor, SLOW)
    assert muted(inhibitor, stuck)
    assert not muted(inhibitor, stuck.with_(instance="b"))
    assert not muted(inhibitor, SLOW.with_(deployment="other"))
    assert not muted(inhibitor, DEAD.with_(instance="b"))


def test_a_deployment_that_is_down_is_one_page() -> None:
    inhibitor = shipped()
    inhibitor.fires(DEAD.with_(alertname="EngineDeploymentDown"))
    assert muted(inhibitor, DEAD.with_(instance="a"))
    assert not muted(inhibitor, DEAD.with_(alertname="EngineDeploymentDown"))


def test_a_gpu_fault_mutes_what_it_explains_if_it_pages_itself() -> None:
    inhibitor = shipped()
    fault = Labels(verdict="gpu_fault", severity="ticket", deployment="d", instance="gpu:9400")
    inhibitor.fires(fault)
    assert not muted(inhibitor, DEAD)
    inhibitor.fires(fault.with_(severity="page"))
    assert muted(inhibitor, DEAD.with_(instance="a"))
    assert not muted(inhibitor, Labels(verdict="quality_collapse", deployment="d"))


def alerts() -> list[Labels]:
    """What the shipped rules can fire, by the labels that they give."""
    return [
        Labels({name: text.text for name, text in rule.labels.items()}, alertname=rule.name)
        for file in load_rule_files(rule_files())
        for group in file.groups
        for rule in group.rules
        if isinstance(rule, AlertingRule)
    ]


def test_no_two_alerts_can_mute_each_other() -> None:
    mutes: dict[Labels, set[Labels]] = {}
    for one in shipped_rules():
        for source in alerts():
            if matches_all(source, one.source_matchers):
                targets = {each for each in alerts() if matches_all(each, one.target_matchers)}
                mutes.setdefault(source, set()).update(targets - {source})

    def reach(alert: Labels, seen: tuple[Labels, ...]) -> None:
        assert alert not in seen, f"{alert} can mute itself by way of {seen}"
        for target in mutes.get(alert, ()):
            reach(target, (*seen, alert))

    for alert in mutes:
        reach(alert, ())


def test_only_what_pages_mutes() -> None:
    for one in shipped_rules():
        sources = [each for each in alerts() if matches_all(each, one.source_matchers)]
        assert sources, one
        assert {each["severity"] for each in sources} == {"page"}, one


@pytest.mark.skipif(not shutil.which("amtool"), reason="apt-get install prometheus-alertmanager")
def test_alertmanager_takes_them_as_they_are(tmp_path: Path) -> None:
    text = (rules_path() / "inhibit.yml").read_text()
    path = tmp_path / "am.yml"
    path.write_text(f"route: {{receiver: a}}\nreceivers: [{{name: a}}]\n{text}")
    said = subprocess.run(
        ["amtool", "check-config", str(path)], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
