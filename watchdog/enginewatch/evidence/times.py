"""The time that a log line gives itself, in the ways engines write it.

Zones are rarely written, so a time without one is taken as UTC: times are only
ever compared within one source. vLLM and glog leave the year out; it is the one
last seen in full in the same source, or the one given, and it turns over where
December is followed by January.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

from enginewatch.model import Millis

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_WITHIN: Final = 160
"""A line's own time stands in its first part; later ones are data."""
_HEAD: Final = _WITHIN + 40
"""Holds all of a time that begins within."""
_EPOCH: Final = date(1970, 1, 1).toordinal()

_CLOCK: Final = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"

_FORMATS: Final = tuple(
    re.compile(form)
    for form in (
        # 09-07 10:02:11, vLLM
        r"(?<![\d-])(?P<month>\d\d)-(?P<day>\d\d) " + _CLOCK,
        # 2026-05-18 09:12:31, 2026-05-18T09:12:31.123Z, 2026/05/18 09:12:31
        r"(?<!\d)(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ]"
        + _CLOCK
        + r"(?P<zone>Z| ?[+-]\d\d:?\d\d)?",
        # [04/16/2026-21:44:38], TensorRT and TensorRT-LLM
        r"(?<!\d)(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4})[- ]" + _CLOCK,
        # E0611 08:14:22.519034, glog; torch writes E811 for the 11th of August
        r"\b[IWEFDV](?P<month>\d{1,2})(?P<day>\d\d) " + _CLOCK,
        # Fri Aug  1 12:00:00 2026, and syslog's Aug  1 12:00:00
        r"\b(?P<name>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) " + _CLOCK + r"(?: (?P<year>\d{4}))?",
    )
)
_BOOT: Final = re.compile(r"(?:<\d+>)?\[ *(\d+\.\d{6})\]")
"""Seconds since the kernel started."""


class Stamp(NamedTuple):
    """A moment on one of two clocks that can't be compared: the wall's, and the kernel's own."""

    at: Millis
    boot: bool = False

    def since(self, earlier: Stamp | None) -> Millis | None:
        """Milliseconds between two moments of one clock; None across clocks."""
        if earlier is None or earlier.boot is not self.boot:
            return None
        return self.at - earlier.at


class TimeReader:
    """Reads the times of one source's lines in their order.

    A source writes its times in one way and at one place, so the format and the
    place of the last one are tried first. `place` is where the last one stands, up to its
    seconds.
    """

    def __init__(self, year: int):
        self._year = year
        self._month = 0
        self._last = (_FORMATS[0], 0)
        self.place = slice(0, 0)
        self._days: dict[tuple[int, int, int], int] = {}

    def read(self, text: str) -> Stamp | None:
        """The line's own time, or None where it has none that is a real date."""
        form, place = self._last
        found = form.match(text, place)
        if found is None:
            boot = _BOOT.match(text)
            if boot is not None:
                return Stamp(round(float(boot[1]) * 1000), boot=True)
            found = _earliest(text)
            if found is None:
                return None
        try:
            at = self._millis(found)
        except (ValueError, KeyError):
            return None
        self._last = (found.re, found.start())
        self.place = slice(found.start(), found.end("s"))
        return Stamp(at)

    def _millis(self, found: re.Match[str]) -> Millis:
        parts = found.groupdict()
        name = parts.get("name")
        month = _MONTHS.index(name.lower()) + 1 if name else int(parts["month"] or 0)
        written = parts.get("year")
        day = self._day(int(written) if written else None, month, int(parts["day"] or 0))
        hour, minute, second = int(found["h"]), int(found["m"]), int(found["s"])
        if hour > 23 or minute > 59 or second > 60:
            raise ValueError("no time of day")
        fraction = int((parts["f"] or "0").ljust(3, "0")[:3])
        seconds = day * 86_400 + hour * 3_600 + minute * 60 + second
        return (seconds - _offset(parts.get("zone"))) * 1000 + fraction

    def _day(self, written: int | None, month: int, day: int) -> int:
        """Days since the epoch; the year is remembered for dates that follow without one."""
        if written is not None:
            self._year = written
        elif self._month == 12 and month == 1:
            self._year += 1
        key = (self._year, month, day)
        number = self._days.get(key)
        if number is None:
            number = date(*key).toordinal() - _EPOCH
            # One day is asked for over and over; a hostile log must not make this grow.
            self._days = {key: number}
        self._month = month
        return number


class SecondReader:
    """Reads only which second a line is of: at once, where it is that of the line before."""

    def __init__(self, year: int):
        self._times: Final = TimeReader(year)
        self._place = slice(0, 0)
        self._written = b""
        self._second: Millis | None = None

    def read(self, raw: bytes) -> Millis | None:
        """The line's own time, of either clock, without its fraction; None where it has none."""
        if self._written and raw[self._place] == self._written:
            return self._second
        # Byte for byte, so that a place in the text is one in the line.
        head = raw[:_HEAD].decode("latin-1")
        stamp = self._times.read(head)
        self._written, self._second = b"", None
        if stamp is None:
            return None
        self._second = stamp.at - stamp.at % 1_000
        if not stamp.boot:
            self._place = self._times.place
            self._written = raw[self._place]
        return self._second


def _earliest(text: str) -> re.Match[str] | None:
    """The first time in the line, of any format."""
    found = (form.search(text, 0, _WITHIN) for form in _FORMATS)
    return min((each for each in found if each), key=lambda each: each.start(), default=None)


def _offset(zone: str | None) -> int:
    """Seconds east of Greenwich."""
    if not zone or zone == "Z":
        return 0
    digits = zone.strip().replace(":", "")
    seconds = int(digits[1:3]) * 3_600 + int(digits[3:5]) * 60
    return -seconds if digits[0] == "-" else seconds
