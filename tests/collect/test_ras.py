"""The collector of NCCL's RAS against servers that speak its protocol, well and badly."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.collect.ras_accounts import (
    HEALTHY,
    HEALTHY_JSON,
    STOPPED,
    STOPPED_JSON,
    UNRESPONSIVE,
    comm,
    document,
    missing,
    rank,
)
from tests.support.samples import series_at

from enginewatch.collect import ras_client
from enginewatch.collect.ras import RasCollector
from enginewatch.collect.ras_client import ask
from enginewatch.collect.ras_report import RasError, Reason
from enginewatch.collect.rounds import Writers
from enginewatch.config import NcclRasConfig
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.model import Labels, Millis, Sample
from enginewatch.store.head import Head

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
Behaviour = Callable[[Reader, Writer], Awaitable[None]]
LOST = document(comm(*(rank(number) for number in range(7)), lost=(missing(7),)))
DEADLINE = 60.0


@asynccontextmanager
async def listening(*behaviours: Behaviour) -> AsyncIterator[int]:
    """A server whose connections behave by turns; the last one for all that come later."""
    turns = list(behaviours)
    open_ones: set[asyncio.Task[Any]] = set()

    async def serve(reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_ones.add(task)
        with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            await (turns.pop(0) if len(turns) > 1 else turns[0])(reader, writer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)


def nccl(text: str = "", *, json: str = "", protocol: int = 2, piece: int = 0) -> Behaviour:
    """NCCL as it speaks: commands without regard to case, and the account ends the connection. Its
    version can give JSON where there is some."""

    async def behave(reader: Reader, writer: Writer) -> None:
        account = text
        while True:
            command = (await reader.readuntil(b"\n")).decode().strip().lower()
            if command == "verbose status":
                break
            in_json = bool(json) and command == "set format json"
            account = json if in_json else account
            known = command.startswith("timeout ") or in_json
            reply = "OK" if known else f"ERROR: Unknown command {command}"
            if command.startswith("client protocol "):
                reply = f"SERVER PROTOCOL {protocol}"
            writer.write(f"{reply}\n".encode())
            await writer.drain()
        sent = account.encode()
        for start in range(0, len(sent), piece or len(sent) or 1):
            writer.write(sent[start : start + (piece or len(sent))])
            await writer.drain()
            await asyncio.sleep(0)

    return behave


async def silent(reader: Reader, writer: Writer) -> None:
    """A process that is stopped: the kernel accepts for it."""
    await reader.read()


async def rude(reader: Reader, writer: Writer) -> None:
    """Not NCCL."""
    await reader.readline()
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def gone(reader: Reader, writer: Writer) -> None:
    await reader.readline()


async def endless(reader: Reader, writer: Writer) -> None:
    await reader.readline()
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


def asked(*behaviours: Behaviour, seconds: float = DEADLINE) -> ras_client.Answer:
    async def run() -> ras_client.Answer:
        async with listening(*behaviours) as port:
            return await ask("127.0.0.1", port, seconds, lambda: 0.0)

    return asyncio.run(run())


@pytest.mark.parametrize("piece", [0, 1, 100])
def test_an_old_version_gives_text(piece: int) -> None:
    answer = asked(nccl(HEALTHY, piece=piece))
    assert (answer.text, answer.is_json, answer.protocol) == (HEALTHY, False, "2")


def test_a_newer_one_gives_json() -> None:
    assert asked(nccl(json=LOST)) == (LOST, True, "2", 0)


def test_another_version_of_the_protocol_is_tried_all_the_same() -> None:
    assert asked(nccl(HEALTHY, protocol=3)).protocol == "3"


def test_a_stopped_process_of_the_job_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras_client, "_GREETING", 0.05)
    assert asked(silent, silent, nccl(HEALTHY)).unanswered == 2


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (silent, Reason.TIMEOUT),
        (rude, Reason.NOT_NCCL),
        (gone, Reason.CUT_OFF),
        (endless, Reason.NOT_NCCL),
    ],
)
def test_what_is_no_answer_says_why(
    monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour, reason: Reason
) -> None:
    if behaviour is silent:
        monkeypatch.setattr(ras_client, "_GREETING", 0.02)
    with pytest.raises(RasError, match=r"127\.0\.0\.1") as failure:
        asked(behaviour)
    assert failure.value.reason is reason


def test_an_answer_that_does_not_end_is_given_up() -> None:
    async def hang(reader: Reader, writer: Writer) -> None:
        await nccl(HEALTHY[:400])(reader, writer)
        await writer.drain()
        await reader.read()

    with pytest.raises(RasError) as failure:
        asked(hang, seconds=0.3)
    assert failure.value.reason is Reason.TIMEOUT


def test_an_account_without_measure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras_client, "_MOST", 1000)
    with pytest.raises(RasError) as failure:
        asked(nccl(HEALTHY * 3))
    assert failure.value.reason is Reason.UNREADABLE


class World:
    """A collector of one job, a store, and a clock that goes ten seconds a look."""

    def __init__(self) -> None:
        self.head = Head()
        self.ring = EvidenceRing()
        self.now = 1_000_000

    def run(self, looks: Sequence[Behaviour | None], *, named: bool = True) -> list[float]:
        """One look for each behaviour, None for a closed port; how long each waits after."""

        async def run() -> list[float]:
            async with listening(silent) as port:
                pass  # a port that was free a moment ago
            config = NcclRasConfig(address=f"127.0.0.1:{port}", instance="n1")
            if not named:
                config = config.model_copy(update={"address": config.address})
                config.model_fields_set.discard("address")
            collector = RasCollector(
                [config], Writers(self.head), lambda: self.now, deployment="chat", ring=self.ring
            )
            (job,) = collector.jobs
            return [await self._look(job, port, behaviour) for behaviour in looks]

        return asyncio.run(run())

    async def _look(self, job: Any, port: int, behaviour: Behaviour | None) -> float:
        self.now += 10_000
        if behaviour is None:
            return float(await job.look())

        async def serve(reader: Reader, writer: Writer) -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                await behaviour(reader, writer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", port)
        try:
            return float(await job.look())
        finally:
            server.close()
            await server.wait_closed()

    def values(self, name: str) -> dict[Labels, float]:
        return series_at(self.head, f"enginewatch_nccl_ras_{name}", self.now)

    def evidence(self) -> list[str]:
        labels = {"deployment": "chat", "verdict": "collective_hang", "instance": "gpu-1:8000"}
        return [line.partition(": ")[2] for line in self.ring.lines(labels, self.now)]


def test_a_rank_is_lost_and_comes_back() -> None:
    world = World()
    lost = nccl(json=LOST)
    assert world.run([lost, lost, lost]) == [10.0, 10.0, 10.0]
    ((labels, seconds),) = world.values("ranks_lost_seconds").items()
    assert seconds == 20
    assert (labels["deployment"], labels["instance"]) == ("chat", "n1")
    assert len(world.evidence()) == 2
    assert "no word of rank 7" in world.evidence()[1]
    world = World()
    world.run([lost, nccl(HEALTHY)])
    assert not world.values("ranks_lost_seconds")
    assert list(world.values("up").values()) == [1]


def test_text_serves_as_well() -> None:
    world = World()
    world.run([nccl(UNRESPONSIVE)] * 2)
    assert list(world.values("ranks_lost_seconds").values()) == [10]


def test_a_job_whose_json_breaks_when_a_rank_is_lost_is_read_as_text() -> None:
    world = World()
    with_a_comma_left_out = nccl(STOPPED, json=STOPPED_JSON)
    world.run([nccl(HEALTHY, json=HEALTHY_JSON), *[with_a_comma_left_out] * 3])
    assert list(world.values("ranks_lost_seconds").values()) == [20]
    assert list(world.values("up").values()) == [1]
    assert "no word of rank 1" in "".join(world.evidence())


def test_a_job_that_is_expected_and_not_there_is_told() -> None:
    world = World()
    world.run([None])
    assert list(world.values("up").values()) == [0]
    assert [labels["reason"] for labels in world.values("error")] == ["refused"]


def test_where_no_address_was_named_nothing_is_told_until_a_job_answered() -> None:
    world = World()
    assert world.run([None, rude], named=False) == [10.0, 600.0]
    assert not world.values("up")
    world.run([nccl(HEALTHY), None], named=False)
    assert list(world.values("up").values()) == [0]


def test_an_account_that_was_cut_off_ends_what_was_said() -> None:
    world = World()
    world.run([nccl(json=LOST), nccl(UNRESPONSIVE[:300], json=LOST[:300])])
    assert not world.values("ranks_lost_seconds")
    assert [labels["reason"] for labels in world.values("error")] == ["cut_off"]


def test_what_stays_the_same_is_kept_as_evidence_once() -> None:
    world = World()
    world.run([nccl(json=LOST)] * 4)
    assert len(world.evidence()) == 2


def test_it_ends_with_its_series() -> None:
    head, clock = Head(), itertools.count(5_000, 1_000)
    to_store = Writers(head)
    seen: list[Labels] = []

    async def run() -> None:
        written = asyncio.Event()

        def write(key: Hashable, at: Millis, samples: Iterable[Sample]) -> None:
            kept = list(samples)
            seen.extend(each.labels for each in kept)
            to_store(key, at, kept)
            written.set()

        async with listening(nccl(HEALTHY)) as port:
            config = NcclRasConfig(address=f"127.0.0.1:{port}")
            collector = RasCollector([config], write, lambda: next(clock))
            collector.start()
            await asyncio.wait_for(written.wait(), DEADLINE)
            await collector.stop()

    asyncio.run(run())
    assert any(labels.name == "enginewatch_nccl_ras_up" for labels in seen)
    assert not series_at(head, "enginewatch_nccl_ras_up", next(clock))
