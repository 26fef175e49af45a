"""The engine that a canary command asks, and a bar that shows how far it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from enginewatch.collect.canary_ask import Asker, Logprobs, Questions
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.scrape import wall_clock
from enginewatch.config import Authorization, config_for_urls
from enginewatch.errors import EnginewatchError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reach:
    """Where and how to ask, as the options say."""

    url: str
    runtime: str | None
    model: str | None
    chat: bool
    token_env: str | None
    concurrency: int
    timeout: float
    logprobs: Logprobs

    def asker(self) -> Asker:
        secret = Authorization(credentials_env=self.token_env) if self.token_env else None
        config = config_for_urls([self.url], self.runtime, secret)
        targets = Discovery(config).targets(wall_clock()).targets
        if not targets:
            raise EnginewatchError("names no engine", where=self.url)
        questions = Questions(self.model, self.chat, self.logprobs, self.timeout)
        return Asker(targets[0], questions)


async def reached(reach: Reach, work: Callable[[Asker], Awaitable[T]]) -> T:
    """What `work` makes of an asker, which is closed after it."""
    asker = reach.asker()
    try:
        return await work(asker)
    finally:
        await asker.close()


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar on standard error, if that is a terminal; what it gives is called once an answer."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda *_: bar.advance(task)
