"""What is a page that arrived as it should, and what is not: a table."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from enginechaos.expectations import Expected, faults, first_page, resolve_of, unexpected
from enginechaos.receivers import Delivery

HANG = Expected("collective_hang")


def heard(*told: str, **changes: Any) -> list[Delivery]:
    """`f` fires, `r` resolves, `F` fires with more alerts than before; a second apart each."""
    news, at = count(), count(100.0)
    made = []
    for each in told:
        alerts = frozenset([str(next(news))]) if each == "F" else frozenset(["a"])
        one = {
            "at": next(at),
            "receiver": "webhook",
            "key": "k",
            "firing": each != "r",
            "verdict": "collective_hang",
            "deployment": "chat",
            "severity": "page",
            "alerts": alerts,
        }
        made.append(Delivery(**{**one, **changes}))
    return made


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ("fr", []),
        ("fFr", []),
        ("", ["webhook: was not paged"]),
        ("r", ["webhook: was not paged"]),
        ("f", ["webhook: was never told that it is over"]),
        ("ffr", ["webhook: paged twice with the same news, 1 s apart"]),
        ("frr", ["webhook: resolved twice"]),
        ("frfr", ["webhook: fired again 1 s after its resolve"]),
    ],
)
def test_a_page_comes_once_and_goes_once(told: str, wrong: list[str]) -> None:
    assert list(faults(HANG, heard(*told), ["webhook"])) == wrong


def test_severity_and_key_are_held_too() -> None:
    assert list(faults(HANG, heard("f", "r", severity="ticket"), ["webhook"])) == [
        "webhook: severity 'ticket', expected 'page'"
    ]
    assert list(faults(HANG, heard("f", "r", key=""), ["webhook"])) == ["webhook: no dedup key"]
    two = [*heard("f", "r", key="k1"), *heard("f", "r", key="k2")]
    assert "webhook: 2 incidents for one: k1, k2" in list(faults(HANG, two, ["webhook"]))


def test_each_receiver_is_asked() -> None:
    told = heard("f", "r")
    assert list(faults(HANG, told, ["webhook", "slack"])) == ["slack: was not paged"]
    assert first_page(HANG, told, "slack") is None
    assert resolve_of(HANG, told, "webhook")
    assert not resolve_of(HANG, told[:1], "webhook")


def test_what_nobody_expects_is_said() -> None:
    other = heard("f", verdict="stuck_engine", deployment="other")
    assert unexpected([HANG], [*heard("f"), *other], "chat") == [
        "webhook: firing stuck_engine of other (page)"
    ]
    also = Expected("collective_hang", also=frozenset(["stuck_engine"]))
    assert not unexpected([also], heard("f", verdict="stuck_engine"), "chat")


def test_a_warning_that_goes_before_the_page_is_the_same_incident_and_no_page() -> None:
    warned = Expected("collective_hang", warned="ticket")
    told = [*heard("f", severity="ticket"), *heard("F", "r")]
    assert first_page(warned, told, "webhook") is told[1]
    assert list(faults(warned, told, ["webhook"])) == []
    assert "webhook: severity 'ticket', expected 'page'" in list(faults(HANG, told, ["webhook"]))
    assert first_page(warned, told[:1], "webhook") is None
