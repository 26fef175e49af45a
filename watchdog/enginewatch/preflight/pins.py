"""What containers hold and components need of each other: `pins`, `images` and `needs` of
`rules/compat`; and versions as numbers that can be compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from enginewatch.evidence.tables import load_table
from enginewatch.model import compile_re2
from enginewatch.rulepack import rules_path

_NUMBERS: Final = re.compile(r"v?(\d+(?:\.\d+)*)")
_EXTRA: Final = re.compile(r"(?:\.?post\d+|\+[\w.]+)+$")
_COMPONENTS: Final = ("torch", "tensorrt", "tensorrt_llm", "vllm", "cuda", "driver")


class Image(NamedTuple):
    """What an image's name tells: the family and month, or versions of components."""

    reference: str
    family: str
    tag: str
    versions: Mapping[str, str]


class Need(NamedTuple):
    """A row of `needs.yml`."""

    name: str
    of: str
    first: str
    until: str
    model: str
    needs: str
    least: str
    below: str
    grade: str
    why: str

    def concerns(self, version: str) -> bool:
        """Whether a version of the component `of` is meant."""
        found = numbers(version)
        return bool(found) and (
            found >= numbers(self.first) and (not self.until or found < numbers(self.until))
        )

    def met(self, version: str) -> bool:
        """By a version of the component `needs`. Without numbers it can't be."""
        found = numbers(version)
        if self.below:
            return found < numbers(self.below)
        return found >= numbers(self.least)


def numbers(version: str) -> tuple[int, ...]:
    """`10.14.1.48.post1` as (10, 14, 1, 48); empty where it does not begin with a number."""
    found = _NUMBERS.match(version.strip())
    return tuple(int(part[:9]) for part in found[1].split(".")) if found else ()


def same(one: str, other: str) -> bool:
    """Whether two versions agree as far as both are told: `10.14` and `10.14.1.48` do, and
    `1.2.0rc2` and `1.2.0` do not. Post-releases and local builds are passed over."""
    left, right = (_EXTRA.sub("", text.strip().lower().removeprefix("v")) for text in (one, other))
    if left == right:
        return True
    if not re.fullmatch(r"[\d.]+", left) or not re.fullmatch(r"[\d.]+", right):
        return False
    a, b = numbers(left), numbers(right)
    shorter = min(len(a), len(b))
    return shorter > 0 and a[:shorter] == b[:shorter]


def image_of(reference: str) -> Image | None:
    """What the name of an image tells; None for one that no pattern fits."""
    for row in _images():
        found = row["compiled"].search(reference)
        if found is None:
            continue
        groups = found.groupdict()
        if row.get("family"):
            return Image(
                reference, row["family"], groups["tag"], pins(row["family"], groups["tag"])
            )
        return Image(reference, "", "", {row["component"]: groups["version"]})
    return None


def pins(family: str, tag: str) -> Mapping[str, str]:
    """Versions by component, in pip's names; empty for a container that no row has."""
    for row in _pins():
        first, _, last = row["tags"].partition("-")
        if row["family"] == family and first <= tag <= (last or first):
            found = {name.replace("_", "-"): row.get(name, "") for name in _COMPONENTS}
            return {name: version for name, version in found.items() if version}
    return {}


def families(tag: str) -> Mapping[str, Mapping[str, str]]:
    """The pins of every family that has a month's tag."""
    names = dict.fromkeys(row["family"] for row in _pins())
    found = {name: pins(name, tag) for name in names}
    return {name: held for name, held in found.items() if held}


@cache
def needs() -> tuple[Need, ...]:
    """Raises SignatureError where the table can't be read."""
    table = load_table(rules_path() / "compat" / "needs.yml")
    columns = ("of", "from", "until", "model", "needs", "least", "below", "grade", "why")
    return tuple(
        Need(name, *(str(row.get(column, "")) for column in columns))
        for name, row in table.rows.items()
    )


@cache
def _images() -> tuple[dict[str, Any], ...]:
    table = load_table(rules_path() / "compat" / "images.yml")
    return tuple(
        {**row, "compiled": compile_re2(str(row["pattern"]))} for row in table.rows.values()
    )


@cache
def _pins() -> tuple[Mapping[str, Any], ...]:
    return tuple(load_table(rules_path() / "compat" / "pins.yml").rows.values())
