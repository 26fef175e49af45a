"""Versions of what will serve: declared, out of a container's `pip freeze`, or installed here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Final, NamedTuple
from urllib.parse import unquote

from enginewatch.preflight.errors import PreflightError

_PIN: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*={2,3}\s*([^\s;#\\]+)")
_DIRECT: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*@\s*(\S+)")
_WHEEL: Final = re.compile(r"[^/]*?-(\d[^-/]*)-[^/]*\.whl")
_DECLARED: Final = re.compile(r"([A-Za-z][\w.-]*)\s*=\s*=?\s*([\w.+!-]+)")

RUNTIMES: Final = {"vllm": "vllm", "tensorrt-llm": "trtllm", "sglang": "sglang"}
"""The runtime of a launch, by the distribution that has it."""
HERE: Final = "installed here"
"""The `where` of what this environment has."""
INSTALLED: Final = ("tensorrt", "tensorrt-llm", "vllm", "sglang", "torch", "transformers")
"""Of what is installed here, the distributions that are asked for."""


class Version(NamedTuple):
    """A distribution or component in pip's canonical form (`tensorrt-llm`, `cuda`, `driver`)."""

    name: str
    version: str
    where: str


def canonical(name: str) -> str:
    """PEP 503: `TensorRT_LLM` and `tensorrt.llm` are `tensorrt-llm`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared_version(text: str) -> Version:
    """`tensorrt-llm=1.2.1`, or with `==`. Raises PreflightError."""
    found = _DECLARED.fullmatch(text.strip())
    if found is None:
        hint = "write it like tensorrt-llm=1.2.1, cuda=13.1 or driver=590.44.01"
        what = f"{text!r} does not say a name and a version"
        raise PreflightError(what, where="--runtime", hint=hint)
    return Version(canonical(found[1]), found[2], f"--runtime {text}")


def read_freeze(text: str, where: str) -> Iterator[Version]:
    """What `pip freeze` or `pip list --format=freeze` printed; other lines are passed over.

    A local build (`torch @ file:///…/torch-2.9.0a0-cp312-….whl`) has its version in the
    wheel's name.
    """
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        pin = _PIN.match(stripped)
        if pin is not None:
            yield Version(canonical(pin[1]), pin[2], f"{where}:{number}")
            continue
        direct = _DIRECT.match(stripped)
        wheel = _WHEEL.search(direct[2].rpartition("/")[2]) if direct is not None else None
        if direct is not None and wheel is not None:
            yield Version(canonical(direct[1]), unquote(wheel[1]), f"{where}:{number}")


def installed_versions(names: Iterable[str] = INSTALLED) -> Iterator[Version]:
    """Of this environment."""
    for name in names:
        try:
            yield Version(name, metadata.version(name), HERE)
        except metadata.PackageNotFoundError:
            continue
