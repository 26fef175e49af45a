"""Which version of an engine a launch runs, as far as declarations or an image's tag tell."""

from __future__ import annotations

import re
from typing import Final

from enginewatch.preflight.facts import Facts
from enginewatch.preflight.readers.launch import Launch

_DISTRIBUTIONS: Final = {"vllm": "vllm", "trtllm": "tensorrt-llm", "sglang": "sglang"}
"""The distribution of each runtime, whose version is declared or frozen."""
_IMAGES: Final = {
    "vllm": re.compile(r"(?:^|/)vllm/vllm-openai[\w-]*:v?(\d+(?:\.\d+)+)"),
    "sglang": re.compile(r"(?:^|/)lmsysorg/sglang[\w-]*:v?(\d+(?:\.\d+)+)"),
    "trtllm": re.compile(r"/tensorrt-llm/release:v?(\d+(?:\.\d+)+)"),
}
"""Images whose tag is the version of the engine in them. A month's tag of Triton's is not."""
_NUMBER: Final = re.compile(r"\d+")
Release = tuple[int, ...]


def release(text: str) -> Release:
    """The numbers that a version starts with: `0.11.0rc2` is (0, 11, 0); empty for none."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return tuple(int(number) for number in _NUMBER.findall(found[1])) if found else ()


def release_of(launch: Launch, facts: Facts) -> Release:
    """Empty where nothing tells it."""
    name = _DISTRIBUTIONS.get(launch.runtime, "")
    for version in facts.versions:
        if version.name == name:
            return release(version.version)
    pattern = _IMAGES.get(launch.runtime)
    image = launch.container.image if launch.container else ""
    found = pattern.search(image) if pattern else None
    return release(found[1]) if found else ()


def is_older(one: Release, other: str) -> bool:
    """Whether a known release comes before another; False where it is not known."""
    return bool(one) and one < release(other)
