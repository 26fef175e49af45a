"""The life of a silence, and what it silences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enginewatch.config import parse_matchers
from enginewatch.model import Labels
from enginewatch.notify.silence import (
    RETENTION,
    Silence,
    SilenceError,
    Silences,
    SilenceState,
    silenced_by,
)

HOUR = 3_600_000
NOW = 1_000 * HOUR
CHAT = Labels(deployment="chat", severity="page")


def silence(**given: object) -> Silence:
    matchers = parse_matchers('deployment="chat"')
    plain = Silence(matchers, NOW, NOW + HOUR, "me", "maintenance")
    return replace(plain, **given)  # type: ignore[arg-type]


def test_it_is_pending_then_active_then_expired() -> None:
    kept = Silences().put(silence(starts_at=NOW + 10), NOW)
    at = {state: moment for moment in (NOW + HOUR, NOW + 10, NOW) for state in [kept.state(moment)]}
    assert at == {
        SilenceState.EXPIRED: NOW + HOUR,
        SilenceState.ACTIVE: NOW + 10,
        SilenceState.PENDING: NOW,
    }


def test_only_active_ones_silence_and_only_what_matches() -> None:
    silences = Silences()
    kept = silences.put(silence(starts_at=NOW + 10), NOW)
    assert silenced_by(silences.active(NOW), CHAT) == ()
    assert silenced_by(silences.active(NOW + 10), CHAT) == (kept.id,)
    assert silenced_by(silences.active(NOW + 10), CHAT.with_(deployment="other")) == ()
    assert silenced_by(silences.active(NOW + HOUR), CHAT) == ()


def test_it_can_be_expired_once() -> None:
    silences = Silences()
    kept = silences.put(silence(), NOW)
    assert silences.expire(kept.id, NOW + 5).state(NOW + 5) is SilenceState.EXPIRED
    assert silenced_by(silences.active(NOW + 5), CHAT) == ()
    with pytest.raises(SilenceError, match="already expired"):
        silences.expire(kept.id, NOW + 6)
    with pytest.raises(SilenceError, match="no silence has the id 'x'"):
        silences.expire("x", NOW)


def test_a_start_in_the_past_becomes_now() -> None:
    assert Silences().put(silence(starts_at=5), NOW).starts_at == NOW


def test_end_and_comment_of_an_active_one_can_change() -> None:
    silences = Silences()
    kept = silences.put(silence(), NOW)
    longer = replace(kept, ends_at=NOW + 2 * HOUR, comment="takes longer")
    assert silences.put(longer, NOW + 5) == replace(longer, updated_at=NOW + 5)
    assert len(silences.all()) == 1


def test_other_changes_make_another_and_expire_it() -> None:
    silences = Silences()
    kept = silences.put(silence(), NOW)
    wider = silences.put(replace(kept, matchers=parse_matchers("severity=page")), NOW + 5)
    assert wider.id != kept.id
    assert silences.get(kept.id).state(NOW + 5) is SilenceState.EXPIRED
    again = silences.put(replace(kept, ends_at=NOW + 9 * HOUR), NOW + 6)
    assert again.id != kept.id


def test_a_pending_one_can_be_moved() -> None:
    silences = Silences()
    kept = silences.put(silence(starts_at=NOW + 100), NOW)
    moved = silences.put(replace(kept, starts_at=NOW + 50), NOW)
    assert (moved.id, moved.starts_at) == (kept.id, NOW + 50)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"matchers": ()}, "needs a matcher"),
        ({"matchers": parse_matchers('a=~".*"')}, "would silence everything"),
        ({"ends_at": NOW}, "ends before it begins"),
        ({"starts_at": NOW - 5, "ends_at": NOW - 1}, "would have ended already"),
        ({"comment": " "}, "needs a comment"),
        ({"created_by": ""}, "needs a creator"),
        ({"comment": "x" * 5000}, "longer than 4096"),
        ({"id": "unknown"}, "no silence has the id"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object], said: str) -> None:
    silences = Silences()
    with pytest.raises(SilenceError, match=said):
        silences.put(silence(**wrong), NOW)
    assert silences.all() == ()


def test_what_has_changed_is_told_once_and_old_ones_are_forgotten() -> None:
    silences = Silences()
    kept = silences.put(silence(), NOW)
    assert silences.changed() == {kept.id: kept}
    assert silences.changed() == {}
    silences.forget(kept.ends_at + RETENTION)
    assert silences.all() == (kept,)
    silences.forget(kept.ends_at + RETENTION + 1)
    assert silences.changed() == {kept.id: None}
    assert silences.all() == ()
