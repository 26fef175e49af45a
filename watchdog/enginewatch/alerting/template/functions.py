"""The functions a template may call: Go's own and Prometheus', each with its signature."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote_plus

from enginewatch.alerting.template import gofmt, humanize
from enginewatch.alerting.template.values import (
    MAX_OUTPUT,
    GoError,
    GoType,
    Result,
    Value,
    encode,
    equal,
    less,
    truth,
    type_of,
)
from enginewatch.model import Labels, Sample, compile_re2
from enginewatch.units import parse_duration


@dataclass(frozen=True, slots=True)
class Function:
    """`params` are the types of the fixed arguments, `rest` that of any more.

    `apply` is None where the function needs what is known only at expansion.
    """

    params: tuple[GoType, ...]
    returns: GoType
    apply: Callable[..., Value] | None
    rest: GoType | None = None


# Go's own


def _and(*values: Value) -> Value:
    return next((v for v in values if not truth(v)), values[-1])


def _or(*values: Value) -> Value:
    return next((v for v in values if truth(v)), values[-1])


def _eq(left: Value, *others: Value) -> bool:
    if not others:
        raise GoError("missing argument for comparison")
    return any(equal(left, other) for other in others)


def _le(left: Value, right: Value) -> bool:
    return less(left, right) or equal(left, right)


def _length(value: Value) -> int:
    match value:
        case str():
            return len(encode(value))
        case Labels() | dict() | list():
            return len(value)
    raise GoError(f"len of type {type_of(value)}" if value is not None else "len of nil pointer")


def _index(value: Value, *keys: Value) -> Value:
    for key in keys:
        match value:
            case Labels() | dict():
                if not isinstance(key, str):
                    raise GoError(f"value has type {type_of(key)}; should be string")
                value = value.get(key, "" if isinstance(value, Labels) else None)
            case str() | list():
                value = _element(encode(value) if isinstance(value, str) else value, key)
            case None:
                raise GoError("index of untyped nil")
            case _:
                raise GoError(f"can't index item of type {type_of(value)}")
    return value


def _element(sequence: bytes | Result, key: Value) -> Value:
    if not isinstance(key, int) or isinstance(key, bool):
        raise GoError(f"cannot index slice/array with type {type_of(key)}")
    if not 0 <= key < len(sequence):
        raise GoError(f"index out of range: {key}")
    return sequence[key]


def _printed(values: tuple[Value, ...]) -> str:
    return gofmt.sprint([gofmt.printable(value) for value in values])


_HTML: Final = str.maketrans(
    {'"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;", "\0": "\ufffd"}
)


def _html(*values: Value) -> str:
    return _printed(values).translate(_HTML)


def _query_escape(text: str) -> str:
    return quote_plus(encode(text))


def _urlquery(*values: Value) -> str:
    return _query_escape(_printed(values))


# Prometheus'


def _first(result: Result) -> Sample:
    if not result:
        raise GoError("first() called on vector with no elements")
    return result[0]


def _sort_by_label(label: str, result: Result) -> Result:
    return sorted(result, key=lambda sample: sample.labels.get(label, ""))


def _upper(text: str) -> str:
    return "".join(map(_upper_rune, text))


def _upper_rune(char: str) -> str:
    """Go maps rune by rune: what has no single capital (ß) stays."""
    return next((c for c in (char.upper(), char.title()) if len(c) == 1), char)


def _lower(text: str) -> str:
    return "".join(char.lower()[0] for char in text)


def _title(text: str) -> str:
    """A capital at the start of each word, as Go's deprecated strings.Title: `a-b_c` is `A-B_c`."""
    before = [" ", *text[:-1]]
    return "".join(
        _title_rune(c) if _separates(b) else c for b, c in zip(before, text, strict=False)
    )


def _title_rune(char: str) -> str:
    capital = char.title()
    return capital if len(capital) == 1 else char


def _separates(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char == "_")
    return char.isspace()


def _match(pattern: str, text: str) -> bool:
    return _compile(pattern).search(text) is not None


_REFERENCE: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})", re.ASCII)


def _replace_all(pattern: str, replacement: str, text: str) -> str:
    """Go's Regexp.ReplaceAllString: `$1` and `${name}` in the replacement, `$$` for a dollar."""
    compiled = _compile(pattern)
    parts: list[str] = []
    size = at = 0
    last = -1
    for found in compiled.finditer(text):
        if found.start() == found.end() == last:
            continue  # an empty match right behind another one doesn't count
        last = found.end()
        piece = _REFERENCE.sub(partial(_group, found), replacement)
        parts += (text[at : found.start()], piece)
        at = last
        size += len(piece)
        if size > MAX_OUTPUT:
            raise GoError(f"more than {MAX_OUTPUT} characters")
    return "".join(parts) + text[at:]


def _group(found: Any, reference: re.Match[str]) -> str:
    if reference[1]:
        return "$"
    name = reference[2] or reference[3]
    try:
        return found.group(int(name) if name.isdigit() else name) or ""
    except (IndexError, OverflowError):
        return ""  # Go puts nothing for a group that the pattern lacks


def _compile(pattern: str) -> Any:
    try:
        return compile_re2(pattern)
    except ValueError as failure:
        raise GoError(str(failure)) from None


def _split_host_port(text: str) -> tuple[str, str] | None:
    """Go's net.SplitHostPort: None where it is an error."""
    found = re.fullmatch(r"\[([^\[\]]*)\]:([^\[\]:]*)|([^\[\]:]*):([^\[\]:]*)", text, re.DOTALL)
    if found is None:
        return None
    return (found[3], found[4]) if found[1] is None else (found[1], found[2])


def _strip_port(text: str) -> str:
    parts = _split_host_port(text)
    return parts[0] if parts else text


def _strip_domain(text: str) -> str:
    host, port = _split_host_port(text) or (text, "")
    try:
        if "%" not in host and ipaddress.ip_address(host):
            return text
    except ValueError:
        pass
    host = host.partition(".")[0]
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_duration(text: str) -> float:
    try:
        return parse_duration(text) / 1000
    except ValueError as failure:
        raise GoError(str(failure)) from None


def _link(tab: int) -> Callable[[str], str]:
    return lambda expr: f"/graph?g0.expr={_query_escape(expr)}&g0.tab={tab}"


_ANY, _STR, _INT, _BOOL = GoType.ANY, GoType.STRING, GoType.INT, GoType.BOOL
_RESULT, _SAMPLE, _FLOAT = GoType.RESULT, GoType.SAMPLE, GoType.FLOAT

COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")

FUNCTIONS: Final[Mapping[str, Function]] = {
    "and": Function((_ANY,), _ANY, _and, rest=_ANY),
    "or": Function((_ANY,), _ANY, _or, rest=_ANY),
    "not": Function((_ANY,), _BOOL, lambda value: not truth(value)),
    "eq": Function((_ANY,), _BOOL, _eq, rest=_ANY),
    "ne": Function((_ANY, _ANY), _BOOL, lambda left, right: not equal(left, right)),
    "lt": Function((_ANY, _ANY), _BOOL, less),
    "le": Function((_ANY, _ANY), _BOOL, _le),
    "gt": Function((_ANY, _ANY), _BOOL, lambda left, right: not _le(left, right)),
    "ge": Function((_ANY, _ANY), _BOOL, lambda left, right: not less(left, right)),
    "len": Function((_ANY,), _INT, _length),
    "index": Function((_ANY,), _ANY, _index, rest=_ANY),
    "print": Function((), _STR, lambda *values: gofmt.sprint(values), rest=_ANY),
    "println": Function((), _STR, lambda *values: gofmt.sprintln(values), rest=_ANY),
    "printf": Function((_STR,), _STR, lambda text, *values: gofmt.sprintf(text, values), rest=_ANY),
    "html": Function((), _STR, _html, rest=_ANY),
    "urlquery": Function((), _STR, _urlquery, rest=_ANY),
    "query": Function((_STR,), _RESULT, None),
    "first": Function((_RESULT,), _SAMPLE, _first),
    "label": Function((_STR, _SAMPLE), _STR, lambda name, sample: sample.labels.get(name, "")),
    "value": Function((_SAMPLE,), _FLOAT, lambda sample: sample.value),
    "strvalue": Function((_SAMPLE,), _STR, lambda sample: sample.labels.get("__value__", "")),
    "sortByLabel": Function((_STR, _RESULT), _RESULT, _sort_by_label),
    "args": Function(
        (), GoType.ARGS, lambda *given: {f"arg{i}": v for i, v in enumerate(given)}, rest=_ANY
    ),
    "humanize": Function((_ANY,), _STR, humanize.humanize),
    "humanize1024": Function((_ANY,), _STR, humanize.humanize1024),
    "humanizeDuration": Function((_ANY,), _STR, humanize.humanize_duration),
    "humanizePercentage": Function((_ANY,), _STR, humanize.humanize_percentage),
    "humanizeTimestamp": Function((_ANY,), _STR, humanize.humanize_timestamp),
    "title": Function((_STR,), _STR, _title),
    "toUpper": Function((_STR,), _STR, _upper),
    "toLower": Function((_STR,), _STR, _lower),
    "match": Function((_STR, _STR), _BOOL, _match),
    "reReplaceAll": Function((_STR, _STR, _STR), _STR, _replace_all),
    "stripPort": Function((_STR,), _STR, _strip_port),
    "stripDomain": Function((_STR,), _STR, _strip_domain),
    "parseDuration": Function((_STR,), _FLOAT, _parse_duration),
    "graphLink": Function((_STR,), _STR, _link(0)),
    "tableLink": Function((_STR,), _STR, _link(1)),
    "safeHtml": Function((_STR,), _STR, lambda text: text),
    "externalURL": Function((), _STR, None),
    "pathPrefix": Function((), _STR, None),
}

UNSUPPORTED: Final[Mapping[str, str]] = {
    "call": "there are no functions among a template's values",
    "js": "an annotation is plain text",
    "slice": "cut strings with reReplaceAll or printf %.10s",
    "tmpl": "Prometheus has it in console pages only",
    "toTime": "use humanizeTimestamp",
    "toDuration": "use humanizeDuration",
    "now": "use the query time()",
    "urlQueryEscape": "use urlquery",
}
"""Functions of Go or of some Prometheus that are refused, with what to do instead."""
