"""Work that fails begins again, is counted and logged, and ends when it is told to."""

from __future__ import annotations

import asyncio
import logging

import pytest

from enginewatch.revive import failures, keep_running


def test_work_that_fails_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    turns = 0

    async def work() -> None:
        nonlocal turns
        turns += 1
        if turns < 3:
            raise KeyError("a process that nobody knows")

    async def scenario() -> None:
        await keep_running("odd jobs", work, pause=0)

    before = failures["odd jobs"]
    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert turns == 3
    assert failures["odd jobs"] - before == 2
    assert "a process that nobody knows" in caplog.text


def test_work_that_is_cancelled_does_not_begin_again() -> None:
    turns = 0

    async def work() -> None:
        nonlocal turns
        turns += 1
        await asyncio.Event().wait()

    async def scenario() -> None:
        task = keep_running("odd jobs", work, pause=0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert turns == 1
