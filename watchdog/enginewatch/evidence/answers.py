"""What an engine's answer looks like, measured: the judgement is in rules/diagnose/answers.yml.

Broken numerics show in the text itself: NUL bytes, one character for ever (the
token that argmax of NaN gives), scripts mixed as no person mixes them, reserved
tokens as text, nothing at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from enginewatch.canary.shape import compressed, distinct_words, longest_run, reserved, scripts
from enginewatch.model import Labels, Sample

_MOST: Final = 100_000
"""Characters of an answer that are looked at."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice of one response. `tokens` is -1 where the usage is not given."""

    id: str
    text: str
    finish_reason: str
    tokens: int
    is_null: bool = False
    has_nan: bool = False


def answers_of(value: Any) -> Iterator[Answer]:
    """The answers in a response of an OpenAI-compatible server, of SGLang, or a list of such."""
    if isinstance(value, list):
        for each in value:
            yield from answers_of(each)
        return
    if not isinstance(value, Mapping):
        return
    if isinstance(value.get("choices"), list):
        usage = value.get("usage")
        count = len(value["choices"])
        tokens = _number(usage, "completion_tokens") if count == 1 else -1
        for index, choice in enumerate(value["choices"]):
            if isinstance(choice, Mapping):
                name = str(value.get("id", "")) + (f"#{index}" if count > 1 else "")
                yield _choice(name, choice, tokens)
    elif "text" in value and isinstance(value.get("meta_info"), Mapping):
        meta = value["meta_info"]
        reason = meta.get("finish_reason")
        kind = reason.get("type") if isinstance(reason, Mapping) else reason
        text = value["text"]
        yield Answer(
            str(meta.get("id", "")),
            text if isinstance(text, str) else "",
            str(kind or ""),
            _number(meta, "completion_tokens"),
            is_null=text is None,
        )


def _choice(name: str, choice: Mapping[str, Any], tokens: int) -> Answer:
    message = choice.get("message", choice.get("delta", {}))
    text = (
        message.get("content") if isinstance(message, Mapping) and message else choice.get("text")
    )
    thought = message.get("reasoning_content") if isinstance(message, Mapping) else None
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    whole = (thought if isinstance(thought, str) else "") + (text if isinstance(text, str) else "")
    return Answer(
        name,
        whole[:_MOST],
        str(choice.get("finish_reason") or ""),
        tokens,
        is_null=text is None and not thought and not calls,
        has_nan=_has_nan(choice.get("logprobs")),
    )


def _number(value: Any, key: str) -> int:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else -1


def _has_nan(value: Any, depth: int = 0) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    if depth > 8:
        return False
    if isinstance(value, Mapping):
        return any(_has_nan(each, depth + 1) for each in value.values())
    return isinstance(value, list) and any(_has_nan(each, depth + 1) for each in value)


def measured(answers: list[Answer]) -> Iterator[Sample]:
    """The measurements of a set of answers, as samples without a time.

    Labels: `answer` (its number from 1), `finish_reason`, and `char` on the run.
    """
    texts = Counter(answer.text for answer in answers if len(answer.text) >= 8)
    for number, answer in enumerate(answers, 1):
        labels = Labels(answer=str(number), finish_reason=answer.finish_reason)
        text = answer.text
        char, run, before = longest_run(text)
        values = {
            "characters": len(text),
            "tokens": answer.tokens,
            "null_characters": text.count("\x00"),
            "replacement_characters": text.count("\ufffd"),
            "reserved_tokens": reserved(text),
            "scripts": len(scripts(text)),
            "empty": float(not text.strip() or answer.is_null),
            "nan": float(answer.has_nan),
            "identical_answers": texts.get(text, 1),
            "distinct_word_ratio": distinct_words(text),
            "compressed_ratio": compressed(text),
            "run_starts_at": before,
        }
        for name, value in values.items():
            yield Sample(labels.with_(__name__=f"enginewatch_answer_{name}"), float(value))
        yield Sample(
            labels.with_(__name__="enginewatch_answer_longest_run_characters", char=char),
            float(run),
        )
