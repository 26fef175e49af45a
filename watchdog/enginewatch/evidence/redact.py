"""Strikes secrets out of text before it is shown: evidence is pasted into tickets and chats."""

from __future__ import annotations

import re
from typing import Final

STRUCK: Final = "[redacted]"

_NAMED: Final = (
    r"(?:\w*[-_])?(?:api[-_]?key|access[-_]?key|secret(?:[-_]?(?:access[-_]?)?key)?"
    r"|password|passwd|token|authorization)"
)
_PLAIN: Final = r"(?!\[?redacted\]|(?:none|null|true|false|bearer|basic|\d+(?:\.\d+)?)\b)"
_VALUE: Final = _PLAIN + r"""[^\s'",\]})&;]{4,}"""

_URL: Final = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s:@]*:[^/\s@]+@")
_SCHEME: Final = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/._~=-]{6,}")
_ISSUED: Final = re.compile(
    # Keys that issuers mark: OpenAI, NVIDIA, Hugging Face, GitHub, Slack, AWS, Google, JWT.
    r"\b(?:(?:sk|nvapi|hf|ghp|gho|github_pat|xox[abprs])[-_][A-Za-z0-9_-]{12,}"
    r"|(?:AKIA|AIza)[A-Za-z0-9_-]{12,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_ASSIGNED: Final = re.compile(rf"""(?i)((?<!\w){_NAMED}['"]?\s*[=:]\s*\[?['"]?){_VALUE}""")
_FLAG: Final = re.compile(rf"""(?i)(--{_NAMED}[ =]['"]?){_VALUE}""")

_MARKS: Final = (
    "earer", "asic ", "key", "KEY", "Key", "ecret", "ECRET", "assw", "ASSW", "oken", "OKEN",
    "uthoriz", "UTHORIZ", "sk-", "nvapi", "hf_", "gh", "xox", "AKIA", "AIza", "://", "eyJ",
)  # fmt: skip
"""One of these is in every text that has something to strike: most texts are passed at once."""


def redact(text: str) -> str:
    """`text` with tokens, keys and passwords replaced by `[redacted]`; their names stay."""
    if not any(mark in text for mark in _MARKS):
        return text
    text = _URL.sub(rf"\1{STRUCK}@", text)
    text = _SCHEME.sub(rf"\1 {STRUCK}", text)
    text = _ISSUED.sub(STRUCK, text)
    text = _FLAG.sub(rf"\1{STRUCK}", text)
    return _ASSIGNED.sub(rf"\1{STRUCK}", text)
