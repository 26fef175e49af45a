"""Go's fmt for template values: Sprint, Sprintln and Sprintf, its complaints included.

Left out, and refused rather than guessed: `%#v`, `%p`, `%b` and `%#` of floats,
and a precision for hexadecimal floats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from enginewatch.alerting.template import strconv
from enginewatch.alerting.template.values import (
    MAX_OUTPUT,
    Data,
    GoError,
    Value,
    encode,
    type_of,
)
from enginewatch.model import Labels, Sample
from enginewatch.units import format_float

_MAX_WIDTH: Final = 1_000_000
"""The largest width and precision that Go takes from an argument."""

_DIRECTIVE: Final = re.compile(
    r"%(?P<flags>[-+# 0]*)(?P<width>(?:\[[^\]]*\])?\*|\d*)"
    r"(?P<precision>\.(?:(?:\[[^\]]*\])?\*|\d*))?(?P<index>\[[^\]]*\])?(?P<verb>.?)",
    re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Directive:
    """One `%…` of a format. `width` and `precision` are None where not given.

    `named` is what the plus of `%+v` means: structs show their fields' names.
    """

    verb: str
    flags: str = ""
    width: int | None = None
    precision: int | None = None
    named: bool = False

    @property
    def zero(self) -> bool:
        return "0" in self.flags and "-" not in self.flags

    def pad(self, text: str, *, zeros: bool = True) -> str:
        if self.width is None:
            return text
        if "-" in self.flags:
            return text.ljust(self.width)
        return text.rjust(self.width, "0" if self.zero and zeros else " ")


_PLAIN: Final = Directive("v")


def sprint(values: Sequence[Value]) -> str:
    """`print`: a blank between two neighbours neither of which is a string."""
    parts: list[str] = []
    for i, value in enumerate(values):
        if i and not isinstance(value, str) and not isinstance(values[i - 1], str):
            parts.append(" ")
        parts.append(show(value))
    return "".join(parts)


def sprintln(values: Sequence[Value]) -> str:
    """`println`: blanks between all, and a newline."""
    return " ".join(map(show, values)) + "\n"


def show(value: Value) -> str:
    """A value as `%v` prints it."""
    return _format(_PLAIN, value)


def sprintf(text: str, values: Sequence[Value]) -> str:
    """`printf`. A wrong verb or a missing argument shows in the text, as Go shows it.

    Raises GoError for what is left out (see above) and for a text beyond MAX_OUTPUT.
    """
    parts: list[str] = []
    size = at = used = 0
    for found in _DIRECTIVE.finditer(text):
        piece, used = _expand(found, values, used)
        parts += (text[at : found.start()], piece)
        size += len(piece)
        if size > MAX_OUTPUT:
            raise GoError(f"printf: more than {MAX_OUTPUT} characters")
        at = found.end()
    parts.append(text[at:])
    if used < len(values):
        rest = ", ".join(
            f"{type_of(v)}={show(v)}" if v is not None else "<nil>" for v in values[used:]
        )
        parts.append(f"%!(EXTRA {rest})")
    return "".join(parts)


def unsupported(text: str) -> str | None:
    """The first directive in a format that is left out whatever its argument is, or None."""
    for found in _DIRECTIVE.finditer(text):
        if found["index"] or "[" in found["width"] + (found["precision"] or ""):
            return found[0]
        if found["verb"] == "p" or (found["verb"] == "v" and "#" in found["flags"]):
            return found[0]
    return None


def placeholders(text: str) -> str:
    """A format with its directives filled in by `x`, or by 0 where a number should be."""
    marks = {"%": "%", "s": "x", "q": '"x"', "v": "x"}
    return _DIRECTIVE.sub(lambda found: marks.get(found["verb"], "0"), text)


def _expand(found: re.Match[str], values: Sequence[Value], used: int) -> tuple[str, int]:
    """The text of one directive, and how many arguments are used up after it."""
    if unsupported(found[0]):
        raise GoError(f"printf: {found[0]} is not supported")
    flags, complaints = found["flags"], ""
    width, used = _number(found["width"], values, used)
    if width is None and found["width"]:
        complaints += "%!(BADWIDTH)"
    if width is not None and width < 0:
        width, flags = -width, flags + "-"
    precision, used = _number((found["precision"] or "").removeprefix("."), values, used)
    if found["precision"] == ".":
        precision = 0
    elif found["precision"] and (precision is None or precision < 0):
        precision = None
        complaints += "%!(BADPREC)"
    verb = found["verb"]
    if not verb:
        return complaints + "%!(NOVERB)", used
    if verb == "%":
        return complaints + "%", used
    if used >= len(values):
        return f"{complaints}%!{verb}(MISSING)", used
    named = verb == "v" and "+" in flags
    directive = Directive(verb, flags.replace("+", "") if named else flags, width, precision, named)
    return complaints + _format(directive, values[used]), used + 1


def _number(text: str, values: Sequence[Value], used: int) -> tuple[int | None, int]:
    """A width or precision, None where there is no good one, and the arguments used up then."""
    if text != "*":
        if len(text) > len(str(_MAX_WIDTH)):
            raise GoError(f"printf: {text} is too large for a width or precision")
        return (int(text) if text else None), used
    given = values[used] if used < len(values) else None
    after = min(used + 1, len(values))
    if not isinstance(given, int) or isinstance(given, bool) or abs(given) > _MAX_WIDTH:
        return None, after
    return given, after


def _format(directive: Directive, value: Value) -> str:
    verb = directive.verb
    if verb == "T":
        return directive.pad(type_of(value))
    match value:
        case str():
            text = _string(directive, value)
        case bool():
            text = directive.pad(str(value).lower()) if verb in "vt" else None
        case int():
            text = _integer(directive, value)
        case float():
            text = _float(directive, value)
        case None:
            text = directive.pad("<nil>") if verb == "v" else "%!" + verb + "(<nil>)"
        case _:
            return _composite(directive, value)
    if text is None:
        plain = Directive("v", directive.flags, directive.width, directive.precision)
        return f"%!{verb}({type_of(value)}={_format(plain, value)})"
    return text


def _string(directive: Directive, value: str) -> str | None:
    flags, limit = directive.flags, directive.precision
    match directive.verb:
        case "v" | "s":
            return directive.pad(value[:limit])
        case "q":
            shown = value[:limit]
            if "#" in flags and "`" not in shown and all(map(_backquotable, shown)):
                return directive.pad(f"`{shown}`")
            return directive.pad(strconv.quote(shown, ascii_only="+" in flags))
        case "x" | "X":
            lead = "0x" if "#" in flags else ""
            gap = " " if " " in flags else ""
            text = gap.join(f"{gap and lead}{byte:02x}" for byte in encode(value)[:limit])
            text = lead + text if text and not gap else text
            return directive.pad(text.upper() if directive.verb == "X" else text)
    return None


def _backquotable(char: str) -> bool:
    """Whether a raw string may hold the character: no control characters but the tab, no BOM."""
    return char == "\t" or (ord(char) >= 0x20 and ord(char) != 0x7F and char != "\ufeff")


_BASES: Final = {"v": "d", "d": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
_PREFIXES: Final = {"b": "0b", "o": "0", "x": "0x", "X": "0X"}


def _integer(directive: Directive, value: int) -> str | None:
    verb, flags = directive.verb, directive.flags
    if verb in "cqU":
        char = chr(value) if 0 <= value < 0xD800 or 0xE000 <= value <= 0x10FFFF else "\ufffd"
        if verb == "U":
            shown = f" '{char}'" if "#" in flags and strconv.printable(char) else ""
            return directive.pad(f"U+{value:04X}{shown}", zeros=False)
        return directive.pad(
            char if verb == "c" else strconv.quote(char, "'", ascii_only="+" in flags)
        )
    if verb not in _BASES:
        return None
    if directive.precision == 0 and value == 0:
        return " " * (directive.width or 0)
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    digits = format(abs(value), _BASES[verb])
    least = directive.precision or 0
    if directive.precision is None and directive.zero and directive.width:
        least = directive.width - len(sign)
    digits = digits.rjust(least, "0")
    prefix = "0o" if verb == "O" else ""
    if "#" in flags and verb in _PREFIXES and not (verb == "o" and digits.startswith("0")):
        prefix = _PREFIXES[verb]
    return directive.pad(sign + prefix + digits, zeros=False)


def _float(directive: Directive, value: float) -> str | None:
    flags, precision = directive.flags, directive.precision
    verb = {"v": "g", "F": "f"}.get(directive.verb, directive.verb)
    if verb not in "eEfgGxXb":
        return None
    if verb == "b" or "#" in flags or (verb in "xX" and precision is not None):
        raise GoError(f"printf: %{flags}{directive.verb} is not supported for float64")
    if precision is None and verb in "eEf":
        precision = 6
    text = format_float(value, verb, precision)
    finite = text[-1].isdigit()
    if text[0].isdigit() or text == "NaN":
        text = ("+" if "+" in flags else " " if " " in flags else "") + text
    if text[0] == "+" and "+" not in flags and " " in flags:
        text = " " + text[1:]
    if not finite:
        return directive.pad(text, zeros=False)
    if directive.zero and directive.width and text[0] in "+- ":
        return text[0] + text[1:].rjust(directive.width - 1, "0")
    return directive.pad(text)


def _composite(directive: Directive, value: Any) -> str:
    """Maps, samples, results and the root: the directive applies to the leaves."""

    def leaf(part: Value) -> str:
        return _format(directive, part)

    match value:
        case Labels() | dict():
            inner = " ".join(f"{leaf(key)}:{leaf(value[key])}" for key in sorted(value))
            return f"map[{inner}]"
        case Sample():
            return "&" + structure(value, directive)
        case list():
            # Go prints the addresses of the samples, which tell a reader nothing.
            return f"[{' '.join(map(leaf, value))}]"
    return structure(value, directive)


def printable(value: Value) -> Value:
    """What an action, `html` and `urlquery` print of a value: `print` marks a pointer and nil."""
    if value is None:
        return "<no value>"
    return structure(value) if isinstance(value, Sample) else value


def structure(value: Sample | Data, directive: Directive = _PLAIN) -> str:
    """A struct, `{a b}`; with `%+v` the names of its fields too."""
    if isinstance(value, Sample):
        parts: dict[str, Value] = {"Labels": value.labels, "Value": value.value}
    else:
        parts = value.fields()
    inner = " ".join(
        (f"{k}:" if directive.named else "") + _format(directive, v) for k, v in parts.items()
    )
    return f"{{{inner}}}"
