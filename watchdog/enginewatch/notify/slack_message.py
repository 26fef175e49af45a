"""A notification as a Slack message: Block Kit within its limits, and nothing in it that acts.

Limits: api.slack.com/reference/block-kit/blocks (50 blocks, a header of 150 characters,
sections of 3,000); the total, about 13,200, is documented nowhere (bolt-js #2509).

Text from labels, rules, logs and models can't ping, link or format: `&`, `<` and `>` are
escaped, an `@` is parted from the word after it, prose stands in `plain_text` objects,
values and evidence in code, whose backticks are replaced, and `verbatim` keeps Slack
from making links of plain addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from enginewatch.model import AlertState
from enginewatch.notify import text
from enginewatch.notify.message import Notification
from enginewatch.notify.text import CUT, Link, Told

Block = dict[str, Any]

MOST_BLOCKS: Final = 50
HEADER: Final = 150
SECTION: Final = 3_000
FIELDS: Final = 10
TOTAL: Final = 12_000
"""Characters in all blocks together, safely below what Slack was seen to refuse; one alert of the
greatest lengths below fits."""

FALLBACK: Final = 3_000
PROSE: Final = 2_800
EVIDENCE: Final = 2_400
VALUE: Final = 200

COLOURS: Final[Mapping[str, str]] = MappingProxyType(
    {"page": "#d32f2f", "ticket": "#f9a825", "info": "#1976d2"}
)
OTHER_COLOUR: Final = "#ef6c00"
GREEN: Final = "#2e7d32"

_ENTITIES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))
_MENTION: Final = re.compile(r"@(?=\w)")
_NOT_IN_CODE: Final = str.maketrans("`", "ˋ")


def escape(plain: str, limit: int) -> str:
    """`plain` so that Slack shows it as it is, and pings nobody; at most `limit` characters."""
    shown = _MENTION.sub("@\u200b", plain)
    for char, entity in _ENTITIES:
        shown = shown.replace(char, entity)
    if len(shown) <= limit:
        return shown
    kept = shown[: limit - len(CUT)]
    entity_at = kept.rfind("&")
    if entity_at >= 0 and ";" not in kept[entity_at:]:
        kept = kept[:entity_at]
    return kept + CUT


def code(plain: str, limit: int) -> str:
    """`plain` as inline code: the one markup in which no other has a meaning."""
    return f"`{escape(plain.translate(_NOT_IN_CODE), limit - 2)}`"


def title(notification: Notification) -> str:
    """`FIRING: <symptom>`, unescaped."""
    return f"{notification.status.value.upper()}: {text.headline(notification)}"


def colour(notification: Notification) -> str:
    """Green once all is over, else by the worst severity."""
    if notification.status is AlertState.RESOLVED:
        return GREEN
    return COLOURS.get(text.severity(notification), OTHER_COLOUR)


def message(notification: Notification) -> dict[str, Any]:
    """The arguments of `chat.postMessage` that a webhook takes too, but for the channel."""
    head = escape(title(notification), HEADER)
    note = text.MAYBE_REPEAT if notification.maybe_repeat else ""
    closing = [_context(note)] if note else []
    return {
        **plain_message(notification),
        "blocks": [{"type": "header", "text": _plain(head)}],
        "attachments": [
            {
                "color": colour(notification),
                "fallback": head,
                "blocks": [
                    *_alerts(notification, len(head) + len(note), 1 + len(closing)),
                    *closing,
                ],
            }
        ],
    }


def plain_message(notification: Notification) -> dict[str, Any]:
    """The same in one line, for notification centres and where blocks are refused."""
    said = [title(notification)]
    if notification.maybe_repeat:
        said.append(text.MAYBE_REPEAT)
    return {
        "text": escape(" ".join(said), FALLBACK),
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }


def note(notification: Notification) -> dict[str, Any]:
    """What has changed, for the message's thread."""
    said = [text.change(notification)]
    if notification.maybe_repeat:
        said.append(text.MAYBE_REPEAT)
    return {"text": escape(" ".join(said), FALLBACK), "mrkdwn": False}


def _alerts(notification: Notification, characters: int, blocks: int) -> list[Block]:
    """The blocks of as many alerts as fit beside those already counted."""
    shown: list[Block] = []
    alerts = text.ranked(notification)
    for number, alert in enumerate(alerts):
        more = _alert(text.told(alert, notification.external_url), alone=len(alerts) == 1)
        size = _size(more)
        # One block is kept for the note that not all alerts are shown.
        if blocks + len(more) + 1 > MOST_BLOCKS or characters + size > TOTAL:
            left = len(alerts) - number
            return [*shown, _context(f"… and {left} more, too many for one Slack message.")]
        shown += more
        characters += size
        blocks += len(more)
    return shown


def _alert(said: Told, *, alone: bool) -> list[Block]:
    """One alert; its symptom is left out where the header has just said it."""
    prose: list[str] = []
    if not alone:
        prose.append(f"{said.state.value}: {said.symptom}")
    if said.state is not AlertState.RESOLVED:
        prose += [each for each in (said.impact, said.description) if each]
    made: list[Block] = []
    if prose:
        made.append({"type": "section", "text": _plain(escape("\n".join(prose), PROSE))})
    fields = [_mrkdwn(f"*{name}*\n{code(value, VALUE)}") for name, value in said.facts[:FIELDS]]
    made.append({"type": "section", "fields": fields})
    if said.evidence and said.state is not AlertState.RESOLVED:
        made.append({"type": "section", "text": _mrkdwn(_evidence(said.evidence))})
    if said.links:
        made.append({"type": "context", "elements": [_mrkdwn(_links(said.links))]})
    return made


def _evidence(lines: Sequence[str]) -> str:
    listing = "\n".join(lines).translate(_NOT_IN_CODE)
    return f"*Evidence*\n```{escape(listing, EVIDENCE)}```"


def _links(links: Iterable[Link]) -> str:
    """The links side by side, without those that no longer fit."""
    shown = ""
    for link in links:
        more = (" · " if shown else "") + f"<{link.url.replace('&', '&amp;')}|{link.title}>"
        shown += more if len(shown) + len(more) <= SECTION else ""
    return shown


def _plain(shown: str) -> Block:
    return {"type": "plain_text", "text": shown, "emoji": False}


def _mrkdwn(shown: str) -> Block:
    return {"type": "mrkdwn", "text": shown, "verbatim": True}


def _context(sentence: str) -> Block:
    return {"type": "context", "elements": [_plain(escape(sentence, SECTION))]}


def _size(blocks: Iterable[Block]) -> int:
    """Characters of all text objects."""
    total = 0
    for block in blocks:
        objects = [block.get("text"), *block.get("fields", ()), *block.get("elements", ())]
        total += sum(len(each["text"]) for each in objects if each)
    return total
