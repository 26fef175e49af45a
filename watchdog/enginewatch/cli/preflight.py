"""`enginewatch preflight`: refuse a bad rollout before a GPU is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import pynvml
import typer

from enginewatch.config import Authorization, config_for_urls
from enginewatch.errors import EnginewatchError
from enginewatch.preflight.accept import Acceptance, read_accepted
from enginewatch.preflight.example import COMMANDS, write_example
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.inputs import Inputs, gather, read_text
from enginewatch.preflight.judge import PreflightRules, shipped_preflight
from enginewatch.preflight.outcome import required
from enginewatch.preflight.readers.gpus import driver_gpus
from enginewatch.preflight.readers.unread import Unread
from enginewatch.preflight.readers.versions import installed_versions
from enginewatch.preflight.report import FORMATS
from enginewatch.preflight.run import preflight as judge

INPUTS: Final = (
    "--engine-dir",
    "--model-repository",
    "--model",
    "--draft",
    "--library",
    "--command",
    "--script",
    "--manifest",
    "--gpus",
    "--freeze",
    "--runtime",
    "--workload",
    "--evals",
    "--baseline-evals",
    "--url",
)
"""Options that give something to judge, in the order of the command's own parameters."""

_OTHERS: Final = ("--gpus", "--freeze", "--runtime")
"""Options that say that the target is not this machine, or not this environment."""


class Format(StrEnum):
    """The forms of `preflight.report.FORMATS`."""

    TABLE = "table"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"


Texts = list[str] | None


def preflight(
    engine_dir: Annotated[
        Texts, typer.Option(metavar="DIR", help="TensorRT-LLM engine directory.")
    ] = None,
    model_repository: Annotated[
        Texts, typer.Option(metavar="DIR", help="Triton's model repository.")
    ] = None,
    model: Annotated[
        Texts, typer.Option(metavar="DIR|NAME", help="Hugging Face checkpoint, or its public name.")
    ] = None,
    draft: Annotated[
        Texts, typer.Option(metavar="DIR|NAME", help="The draft model's checkpoint or name.")
    ] = None,
    library: Annotated[
        Texts, typer.Option(metavar="PATH", help="A shared library, a wheel, or a folder of them.")
    ] = None,
    command: Annotated[
        Texts, typer.Option(metavar="TEXT", help="A launch command, as it will be run.")
    ] = None,
    script: Annotated[
        Texts, typer.Option(metavar="FILE", help="A shell script that launches or builds.")
    ] = None,
    manifest: Annotated[
        Texts, typer.Option(metavar="FILE", help="docker compose or Kubernetes.")
    ] = None,
    gpus: Annotated[
        Texts, typer.Option(metavar="NxMODEL", help="The target's GPUs: 8xB200. Else those here.")
    ] = None,
    freeze: Annotated[
        Texts, typer.Option(metavar="FILE", help="pip freeze of the container that will serve.")
    ] = None,
    runtime: Annotated[
        Texts, typer.Option(metavar="NAME=VERSION", help="tensorrt-llm=1.2.1, driver=590.44.01.")
    ] = None,
    workload: Annotated[
        Texts, typer.Option(metavar="TEXT", help="prompt=3000,decode=300,itl=50ms, or a recording.")
    ] = None,
    evals: Annotated[
        Texts, typer.Option(metavar="PATH", help="Evaluation of what is to be rolled out.")
    ] = None,
    baseline_evals: Annotated[
        Texts, typer.Option(metavar="PATH", help="The same evaluation of the unquantized model.")
    ] = None,
    url: Annotated[Texts, typer.Option(metavar="URL", help="A running endpoint.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the bearer token that --url wants.")
    ] = None,
    require: Annotated[
        Texts, typer.Option(metavar="CHECK", help="Exit 3 if this check can't be told; `all`.")
    ] = None,
    accept: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Known findings, with reason and expiry.")
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Write a folder of files to try this on.")
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="How to report.")] = Format.TABLE,
) -> None:
    """Judge a rollout by its files and flags; exit 1 if it must not go out, 3 if a required check
    can't be told."""
    if example:
        _write_example()
        return
    rules = shipped_preflight()
    wanted = required(require or (), rules)
    today = datetime.now(UTC).date()
    accepted = _accepted(accept, rules)
    built = (engine_dir, model_repository, model, draft, library)
    values = (*built, command, script, manifest, gpus, freeze)
    more = (runtime, workload, evals, baseline_evals, url)
    given = zip(INPUTS, (*values, *more), strict=True)
    inputs = Inputs({name: tuple(each) for name, each in given if each})
    if not inputs.given:
        hint = "name files, flags or an endpoint; --example writes some to try"
        raise EnginewatchError("nothing to judge", where="preflight", hint=hint)
    facts = gather(inputs, (*_surroundings(inputs), *_endpoints(url or (), token_file)))
    report = judge(facts, rules, today, wanted=wanted, accepted=accepted, inputs=inputs.shown())
    typer.echo(FORMATS[form](report))
    if report.outcome.code:
        raise typer.Exit(report.outcome.code)


def _write_example() -> None:
    folder = write_example(Path())
    typer.echo(f"Written to {folder}. Try:\n\ncd {folder}")
    for options in COMMANDS:
        typer.echo(f"enginewatch preflight {options}")


def _surroundings(inputs: Inputs) -> Iterator[Facts]:
    """What this machine says, where nothing says that the target is another one."""
    if "--gpus" not in inputs.given:
        here = driver_gpus(pynvml)
        yield Facts(gpus=here.gpus, unread=here.unread)
    if not any(name in inputs.given for name in _OTHERS):
        yield Facts(versions=tuple(installed_versions()))


def _endpoints(urls: Sequence[str], token_file: Path | None) -> Iterator[Facts]:
    """Running endpoints, each asked for one token and for its metrics. Raises ConfigError."""
    if not urls:
        return
    # The daemon's half of the program takes longer to import than all else takes to judge.
    from enginewatch.collect.endpoint import look  # noqa: PLC0415
    from enginewatch.wiring import read_rules  # noqa: PLC0415

    secret = None if token_file is None else Authorization(credentials_file=token_file)
    for url in urls:
        config = config_for_urls([url], authorization=secret)
        yield Facts(endpoints=(asyncio.run(look(config, url, read_rules(config))),))


def _accepted(path: Path | None, rules: PreflightRules) -> tuple[Acceptance, ...]:
    if path is None:
        return ()
    text = read_text(path, "--accept")
    if isinstance(text, Unread):
        raise EnginewatchError(text.what, where=f"--accept {path}")
    return read_accepted(text, str(path), rules.codes)
