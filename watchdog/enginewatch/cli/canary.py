"""`enginewatch canary`: golden tasks, a baseline of them, and comparisons with it."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from enginewatch.canary.baseline import (
    Answer,
    Baseline,
    Known,
    read_baseline,
    write_baseline,
)
from enginewatch.canary.decision import shipped_decision
from enginewatch.canary.task import Task, read_tasks, write_tasks
from enginewatch.canary.tasks import make_tasks, read_families
from enginewatch.cli.canary_gate import gate_answers, gate_evaluations, watch
from enginewatch.cli.canary_plan import plan_lines
from enginewatch.cli.canary_reach import Reach, progress, reached
from enginewatch.cli.preflight import Format
from enginewatch.collect.canary_ask import Asker, Logprobs, Unanswered, ask_patiently
from enginewatch.errors import EnginewatchError
from enginewatch.units import format_time, plural

app = typer.Typer(no_args_is_help=True, help="Ask golden tasks, and see whether answers get worse.")

TASKS: Final = 500
_ABOUT: Final = "Said of the deployment in the baseline: engine, version, format; KEY=VALUE."

Url = Annotated[str | None, typer.Option(metavar="URL", help="The engine, http://gpu-1:8000.")]
Runtime = Annotated[str | None, typer.Option(help="vllm, trtllm, triton, nim, sglang, dynamo.")]
Model = Annotated[str | None, typer.Option(help="The first that the engine lists, if not given.")]
Chat = Annotated[bool, typer.Option("--chat", help="Ask as chats; completions otherwise.")]
TokenEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment variable with a bearer token.")
]
Concurrency = Annotated[int, typer.Option(min=1, max=1024, help="Questions at a time.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds for one answer.")]
LogprobsOption = Annotated[Logprobs, typer.Option(help="Where log-probabilities come from.")]
Seed = Annotated[str, typer.Option(help="Other seeds give other tasks.")]
Count = Annotated[int, typer.Option("--count", min=1, help="How many tasks.")]
TaskFile = Annotated[
    Path | None, typer.Option("--tasks", metavar="FILE", help="Your own tasks, as JSON lines.")
]
Longest = Annotated[
    int | None, typer.Option(min=1, metavar="TOKENS", help="Leave out tasks that need more.")
]
Thinking = Annotated[
    int,
    typer.Option(min=0, metavar="TOKENS", help="On top of each answer, for models that think."),
]


@app.command()
def tasks(
    seed: Seed = "1",
    count: Count = TASKS,
    task_file: TaskFile = None,
    longest: Longest = None,
    thinking: Thinking = 0,
) -> None:
    """Print the tasks as JSON lines, the format of your own: see what is asked, or edit it."""
    for line in write_tasks(_tasks(seed, count, task_file, longest, thinking)):
        typer.echo(line)


@app.command()
def baseline(
    url: Annotated[str, typer.Option(metavar="URL", help="The trusted engine.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    seed: Annotated[str | None, typer.Option(help="At random, if not given.")] = None,
    count: Count = TASKS,
    task_file: TaskFile = None,
    longest: Longest = None,
    thinking: Thinking = 0,
    repeat: Annotated[
        int, typer.Option(min=1, help="Answers a task: what a healthy engine varies by.")
    ] = 3,
    about: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=_ABOUT)] = None,
    runtime: Runtime = None,
    model: Model = None,
    chat: Chat = False,
    token_env: TokenEnv = None,
    concurrency: Concurrency = 16,
    timeout: Timeout = 120.0,
    logprobs: LogprobsOption = Logprobs.AUTO,
) -> None:
    """Record how a trusted deployment, the unquantized one, answers the golden tasks."""
    said = _said(about or [])
    asked = _tasks(seed or secrets.token_hex(8), count, task_file, longest, thinking)
    reach = Reach(url, runtime, model, chat, token_env, concurrency, timeout, logprobs)
    found = asyncio.run(_baseline(reach, asked, repeat, said))
    _write(output, found)
    rates = found.evaluation().rates
    typer.echo(f"{output}: {plural(len(found.known), 'task')}")
    for family, rate in sorted(rates.items()):
        typer.echo(f"  {family}: {rate.rate:.1%} of {plural(rate.tasks, 'answer')} right")
    with_logprobs = sum(bool(each.logprobs) for each in found.known)
    typer.echo(f"  log-probabilities of {plural(with_logprobs, 'task')}")


@app.command()
def compare(
    baseline_file: Annotated[
        Path,
        typer.Option("--baseline", metavar="PATH", help="A baseline, or an evaluation of lm_eval."),
    ],
    url: Url = None,
    evals: Annotated[
        Path | None, typer.Option(metavar="PATH", help="An evaluation of lm_eval, or a CSV.")
    ] = None,
    answers: Annotated[
        int | None,
        typer.Option(min=1, help="Ask so many, at random, and stop at the first alarm."),
    ] = None,
    accept_drop: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="With --answers: a drop that is no fault.")
    ] = 0.0,
    seed: Annotated[str | None, typer.Option(help="With --answers: of the order.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How to report.")] = Format.TABLE,
    runtime: Runtime = None,
    model: Model = None,
    token_env: TokenEnv = None,
    concurrency: Concurrency = 16,
    timeout: Timeout = 120.0,
    logprobs: LogprobsOption = Logprobs.AUTO,
) -> None:
    """The release gate: is this worse than the baseline? Exit 1 if so, 3 if that can't be told.

    Every task is asked once, and judged by rules/preflight. With --answers the tasks are
    drawn at random and judged one by one, as the daemon does.
    """
    if (url is None) is (evals is None):
        raise EnginewatchError("give --url or --evals", where="canary compare")
    if evals is not None:
        code = gate_evaluations(baseline_file, evals, form)
    else:
        trusted = read_baseline(baseline_file)
        reach = Reach(
            url or "", runtime, model, trusted.chat, token_env, concurrency, timeout, logprobs
        )
        if answers is not None:
            rng = random.Random(seed or secrets.token_hex(8))  # noqa: S311 - not a secret
            code = asyncio.run(watch(trusted, reach, answers, accept_drop, rng, form))
        else:
            found = asyncio.run(_answers(trusted, reach))
            code = gate_answers(trusted, found, reach.url, form)
    if code:
        raise typer.Exit(code)


@app.command()
def plan(
    baseline_file: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Of which the pass rates are taken."),
    ] = None,
    accept_drop: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="A drop that is no fault.")
    ] = 0.0,
) -> None:
    """Say how many answers it takes to see a drop, and what the false alarms are, by simulation."""
    known = None if baseline_file is None else read_baseline(baseline_file)
    for line in plan_lines(shipped_decision(), known, accept_drop):
        typer.echo(line)


async def _baseline(
    reach: Reach, asked: Sequence[Task], repeat: int, about: dict[str, str]
) -> Baseline:
    async def collect(asker: Asker) -> Baseline:
        again = [task for _ in range(repeat) for task in asked]
        with progress("baseline", len(again)) as tell:
            found = await ask_patiently(asker, again, reach.concurrency, tell)
        answers: dict[str, list[Answer]] = {}
        problems = []
        for task, answer in zip(again, found, strict=True):
            if isinstance(answer, Unanswered):
                problems.append(answer)
            else:
                answers.setdefault(task.id, []).append(answer)
        if problems:
            what = f"{plural(len(problems), 'question')} of {len(again)} had no answer"
            hint = f"the first: {problems[0].result}: {problems[0].problem}"
            raise EnginewatchError(what, where=reach.url, hint=hint)
        told = {
            "model": asker.model or "",
            "engine": reach.runtime or "",
            "version": await asker.version(),
            "created": format_time(round(datetime.now(UTC).timestamp() * 1000)),
            **about,
        }
        known = tuple(Known(task, tuple(answers[task.id])) for task in asked)
        return Baseline(known, reach.chat, {k: v for k, v in told.items() if v}, str(reach.url))

    return await reached(reach, collect)


async def _answers(trusted: Baseline, reach: Reach) -> tuple[Answer | Unanswered, ...]:
    async def collect(asker: Asker) -> tuple[Answer | Unanswered, ...]:
        asked = [each.task for each in trusted.known]
        with progress("asked", len(asked)) as tell:
            return tuple(await ask_patiently(asker, asked, reach.concurrency, tell))

    return await reached(reach, collect)


def _tasks(
    seed: str, count: int, given: Path | None, longest: int | None, thinking: int
) -> tuple[Task, ...]:
    found = read_tasks(given) if given else make_tasks(read_families(), seed, count)
    found = tuple(replace(task, max_tokens=task.max_tokens + thinking) for task in found)
    fitting = tuple(task for task in found if longest is None or task.tokens <= longest)
    if not fitting:
        raise EnginewatchError("leaves no task", where=f"--longest {longest}")
    return fitting


def _said(given: Sequence[str]) -> dict[str, str]:
    said = dict(each.partition("=")[::2] for each in given)
    if not all(said.values()):
        raise EnginewatchError("not KEY=VALUE", where="--about", hint="like format=nvfp4")
    return said


def _write(path: Path, found: Baseline) -> None:
    text = "".join(f"{line}\n" for line in write_baseline(found))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise EnginewatchError(f"can't be written: {failure.strerror}", where=str(path)) from None
