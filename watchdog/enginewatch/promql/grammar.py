"""The words and operators of PromQL, as parser, checks and printer share them."""

from __future__ import annotations

import re
from typing import Final

PRECEDENCE: Final = {
    "or": 1,
    **dict.fromkeys(("and", "unless"), 2),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%", "atan2"), 5),
    "^": 6,
}
"""Binary operators by how tightly they bind. All group to the left, only `^` to the right."""

UNARY_OPERAND: Final = PRECEDENCE["^"]
"""A sign binds like `*`, so its operand takes in `^` alone: `-2 ^ 2` is `-(2 ^ 2)`."""

COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
SET_OPERATORS: Final = frozenset({"and", "or", "unless"})

NEVER_METRICS: Final = frozenset(
    {"atan2", "bool", "group_left", "group_right", "ignoring", "inf", "nan", "on"}
)
"""Words that name a metric only in quotes; other keywords can wherever an operand stands."""

NEVER_LABELS: Final = frozenset({"inf", "nan", "without"})
"""Words that name a label in a list of labels only in quotes."""

LABEL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
METRIC_IDENTIFIER: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
"""Names that need no quotes."""
