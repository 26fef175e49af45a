"""What people are told, before any receiver dresses it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.notify.alerts import BESIDE, FIRED, URL, notification, resolved, saying

from enginewatch.notify import text
from enginewatch.notify.message import Notification, Reason
from enginewatch.notify.text import Link


def test_symptom_impact_value_place_and_links() -> None:
    said = text.told(FIRED, URL)
    assert said.symptom == "chat: gpu-1:8000 holds 4 requests and generates nothing"
    assert said.impact == "Every request to chat hangs."
    assert said.facts == (
        ("Deployment", "chat"),
        ("Instance", "gpu-1:8000"),
        ("Model", "llama"),
        ("Runtime", "vllm"),
        ("Value", "4 (threshold > 0)"),
        ("Since", "2025-11-30 19:45:46 UTC"),
    )
    assert said.evidence == ("step 41 took 300 s", "worker 1 did not answer")
    page = f"{URL}/alerts/{FIRED.fingerprint}"
    assert said.links == (
        Link("Runbook", "https://runbooks.example/stuck_engine.md"),
        Link("Alert", page),
        Link("Silence", f"{page}#silence"),
    )


def test_a_resolved_alert_says_how_long_it_lasted_and_offers_no_silence() -> None:
    said = text.told(resolved(), URL)
    assert ("Until", "2025-11-30 19:47:21 UTC, after 1m35s") in said.facts
    assert [link.title for link in said.links] == ["Runbook", "Alert"]


def test_what_a_rule_says_of_the_value_is_preferred() -> None:
    assert ("Value", "4 requests (threshold > 0)") in text.told(
        saying(value="4 requests"), ""
    ).facts
    nothing = replace(saying(threshold=""), value=float("nan"))
    assert "Value" not in dict(text.told(nothing, "").facts)


def test_an_alert_kept_without_its_inputs_says_so() -> None:
    assert "vanished" in dict(text.told(replace(FIRED, unknown=True), "").facts)["State"]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://a.example/b?c=d&e=f#g", "https://a.example/b?c=d&e=f#g"),
        ("https://a.example/x|click> <!here", "https://a.example/x%7Cclick%3E%20%3C!here"),
        ('https://a.example/"onclick=`', "https://a.example/%22onclick=%60"),
        ("javascript:alert(1)", ""),
        ("ftp://a.example/", ""),
        ("https://", ""),
        ("https://[::1/", ""),
        ("https://a.example/" + "x" * 2_000, ""),
        ("", ""),
    ],
)
def test_only_web_addresses_become_links(given: str, url: str) -> None:
    assert text.web_url(given) == url


@given(st.text())
@settings(deadline=None, max_examples=100)
def test_one_line_is_one_line(anything: str) -> None:
    line = text.one_line(anything)
    assert line.isprintable()
    assert line == text.one_line(line)
    assert text.lines(line) == ((line,) if line else ())


def test_the_headline_is_the_worst_symptom() -> None:
    ticket = replace(saying(summary="slow"), labels=BESIDE.labels.with_(severity="ticket"))
    assert text.headline(notification(ticket)) == "slow"
    assert text.headline(notification(ticket, FIRED)) == f"{text.symptom(FIRED)} (and 1 more)"
    assert text.headline(notification(ticket, resolved(FIRED))) == "slow"
    assert text.severity(notification(ticket, FIRED)) == "page"
    assert text.severity(notification(ticket, resolved(FIRED))) == "ticket"


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (notification(resolved()), "Resolved after 1m35s."),
        (
            notification(FIRED, reason=Reason.REPEAT),
            "Still firing, since 2025-11-30 19:45:46 UTC.",
        ),
        (
            notification(FIRED, resolved(BESIDE), reason=Reason.NEW_RESOLVED),
            "Some alerts have resolved: 1 firing, 1 resolved.",
        ),
        (
            notification(FIRED, BESIDE, reason=Reason.NEW_ALERTS),
            f"Firing: {text.symptom(FIRED)} (and 1 more) (2 firing).",
        ),
    ],
)
def test_a_change_is_one_sentence(told: Notification, sentence: str) -> None:
    assert text.change(told) == sentence


def test_what_is_cut_says_so() -> None:
    assert text.cut("abc", 3) == "abc"
    assert text.cut("a" * 100, 20) == "a" * 13 + "… (cut)"
