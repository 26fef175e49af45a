"""Who gets in, and when a place is free again."""

from __future__ import annotations

import asyncio

from enginewatch.collect.gate import Gate


class Crowd:
    """Visitors of a gate with two places, who stay until they are told to go."""

    def __init__(self, gate: Gate):
        self.gate = gate
        self.inside: list[str] = []
        self.entered = asyncio.Event()
        self.go = asyncio.Event()

    async def visit(self, name: str, stay: bool) -> None:
        async with self.gate.place():
            self.inside.append(name)
            self.entered.set()
            if stay:
                await self.go.wait()


def test_a_place_is_free_when_its_holder_ends() -> None:
    async def test() -> list[str]:
        crowd = Crowd(Gate(lambda: 0.0, places=2, patience=60))
        staying = [asyncio.create_task(crowd.visit(name, True)) for name in "abc"]
        await crowd.entered.wait()
        assert crowd.inside == ["a", "b"]
        crowd.go.set()
        await asyncio.gather(*staying)
        return crowd.inside

    assert asyncio.run(test()) == ["a", "b", "c"]


def test_who_only_waits_keeps_nobody_out() -> None:
    async def test() -> list[str]:
        crowd = Crowd(Gate(lambda: 0.0, places=2, patience=0.01))
        staying = [asyncio.create_task(crowd.visit(name, True)) for name in "ab"]
        await crowd.entered.wait()
        async with asyncio.timeout(10):
            await crowd.visit("c", False)
        crowd.go.set()
        await asyncio.gather(*staying)
        # Two places again, not four: those given up were not given back a second time.
        crowd.go.clear()
        later = [asyncio.create_task(crowd.visit(name, True)) for name in "def"]
        await asyncio.sleep(0)
        seen = list(crowd.inside)
        crowd.go.set()
        await asyncio.gather(*later)
        return seen

    assert asyncio.run(test()) == ["a", "b", "c", "d", "e"]


def test_while_this_process_is_late_waiting_is_no_proof() -> None:
    # Read at the entrance and at each look: late, late again, and then punctual.
    readings = [0.0, 0.01, 0.01, 0.02, 0.02, 0.02]
    left: list[int] = []

    async def test() -> None:
        crowd = Crowd(Gate(lambda: readings.pop(0) if readings else 0.02, places=1, patience=0.01))
        first = asyncio.create_task(crowd.visit("a", True))
        await crowd.entered.wait()
        second = asyncio.create_task(crowd.visit("b", False))
        second.add_done_callback(lambda _: left.append(len(readings)))
        async with asyncio.timeout(10):
            await second
        crowd.go.set()
        await first

    asyncio.run(test())
    assert left == [0]
