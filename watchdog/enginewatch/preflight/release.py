"""Which version of an engine a launch runs, as far as declarations or its image tell."""

from __future__ import annotations

from typing import Final

from enginewatch.preflight.facts import Facts
from enginewatch.preflight.pins import image_of, numbers
from enginewatch.preflight.readers.launch import Launch
from enginewatch.preflight.readers.versions import HERE, RUNTIMES

_DISTRIBUTIONS: Final = {runtime: name for name, runtime in RUNTIMES.items()}

Release = tuple[int, ...]
"""The numbers of a version; empty where it is not known."""


def version_of(launch: Launch, facts: Facts) -> str:
    """As declared, else as the image has it, else as installed here; empty where nothing tells.

    What is installed here says nothing of a container.
    """
    name = _DISTRIBUTIONS.get(launch.runtime, "")
    found = [each for each in facts.versions if each.name == name]
    declared = [each.version for each in found if each.where != HERE]
    if declared or launch.container is None:
        return next(iter(declared or [each.version for each in found]), "")
    image = image_of(launch.container.image)
    return image.versions.get(name, "") if image else ""


def release_of(launch: Launch, facts: Facts) -> Release:
    """`version_of` as numbers that can be compared."""
    return numbers(version_of(launch, facts))


def is_older(one: Release, other: str) -> bool:
    """Whether a known release comes before another; False where it is not known."""
    return bool(one) and one < numbers(other)
