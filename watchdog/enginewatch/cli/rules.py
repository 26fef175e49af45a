"""`enginewatch rules`: check, test, explain, and where the pack is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginewatch.alerting.explain import describe, explain
from enginewatch.alerting.rules import AlertingRule, load_rule_files
from enginewatch.alerting.ruletest import run_test_files
from enginewatch.alerting.trace import Tracer
from enginewatch.cli.options import TEST_SUFFIX, Rules, pick_rules, test_files
from enginewatch.cli.output import FOUND
from enginewatch.errors import EnginewatchError
from enginewatch.rulepack import rules_path
from enginewatch.units import plural

app = typer.Typer(no_args_is_help=True, help="Check, test and explain the rules.")

Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Rule files, or folders of them; the shipped pack if left out."),
]


@app.command()
def check(files: Files = None) -> None:
    """Read rule files and report every error with its file, line and column."""
    loaded = load_rule_files(pick_rules(files))
    rules = [rule for file in loaded for group in file.groups for rule in group.rules]
    alerts = sum(isinstance(rule, AlertingRule) for rule in rules)
    typer.echo(
        f"{plural(len(loaded), 'file')}: {plural(len(rules) - alerts, 'recording rule')},"
        f" {plural(alerts, 'alert')}, no errors"
    )


@app.command()
def test(files: Files = None) -> None:
    """Run rule tests in promtool's format on the embedded evaluator; exit 1 if one fails."""
    paths = list(test_files(files or [rules_path()]))
    if not paths:
        raise EnginewatchError(f"no rule tests: no files that end in {TEST_SUFFIX}")
    failed = 0
    for result in run_test_files(paths):
        typer.echo(f"{'ok  ' if result.passed else 'FAIL'} {result.path}")
        for warning in result.warnings:
            typer.echo(f"  warning: {warning}")
        for failure in result.failures:
            typer.echo(f"  {failure}")
        failed += not result.passed
    if failed:
        raise typer.Exit(FOUND)


@app.command(name="explain")
def explain_alert(
    alert: Annotated[str, typer.Argument(help="The alert's name, such as EngineStuck.")],
    rules: Rules = None,
) -> None:
    """Show an alert's expression, the series that feed it, and its runbook."""
    tracer = Tracer(load_rule_files(pick_rules(rules)))
    for found in explain(tracer, alert):
        for line in describe(found):
            typer.echo(line)


@app.command()
def path() -> None:
    """Print the folder of the shipped rules, for rule_files of Prometheus or vmalert."""
    typer.echo(str(rules_path()))
