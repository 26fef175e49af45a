"""`enginewatch diagnose`: what happened, from logs, pages, configurations and answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from enginewatch.cli.output import FOUND
from enginewatch.evidence.diagnose import diagnose as judge
from enginewatch.evidence.errors import EvidenceError
from enginewatch.evidence.inputs import open_inputs
from enginewatch.evidence.render import render


def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Logs, metrics pages, kernel messages, configurations, answers; files, folders,"
            " pipes, or - for standard input."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="The verdict as a JSON object.")] = False,
    context: Annotated[
        Path | None,
        typer.Option(
            help="YAML or JSON with what is known beside the inputs: target_gpu,"
            " target_compute_capability, visible_gpus, runtime, runtime_trtllm_version, probe,"
            " previous_scrape."
        ),
    ] = None,
) -> None:
    """Say what happened, from evidence; exit 1 if something did, 0 if nothing is wrong."""
    given = dict(_context(context)) if context else {}
    opened = open_inputs([Path("/dev/stdin") if str(path) == "-" else path for path in paths])
    given.setdefault("files", opened.files)
    year = datetime.now(UTC).year
    verdict = judge(opened.inputs, given, year=year, notes=opened.notes)
    typer.echo(json.dumps(verdict.to_json(), indent=2) if as_json else render(verdict))
    if verdict.is_finding:
        raise typer.Exit(FOUND)


def _context(path: Path) -> Mapping[str, Any]:
    """The mapping in a context file. Raises EvidenceError."""
    try:
        found = yaml.safe_load(path.read_bytes())
    except OSError as failure:
        raise EvidenceError(f"can't be read: {failure.strerror}", where=str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as failure:
        reason = " ".join(str(failure).split())
        raise EvidenceError(f"neither YAML nor JSON: {reason}", where=str(path)) from None
    # The context may stand under its own name, as in a file that says more.
    inner = found.get("context", found) if isinstance(found, Mapping) else found
    if not isinstance(inner, Mapping):
        hint = "write it like `visible_gpus: 1`, one a line"
        raise EvidenceError("the context is not a mapping", where=str(path), hint=hint)
    return {str(key): value for key, value in inner.items()}
