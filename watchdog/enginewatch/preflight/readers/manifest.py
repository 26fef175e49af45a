"""Containers that serve, out of a compose file or Kubernetes manifests, and what was not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from enginewatch.preflight.readers.compose import read_compose
from enginewatch.preflight.readers.kubernetes import read_kubernetes, starts_something
from enginewatch.preflight.readers.unread import Unread
from enginewatch.preflight.readers.workload import Workload
from enginewatch.preflight.readers.yamldata import Tree


def read_manifest(documents: Iterable[Tree], file: str) -> tuple[Workload, ...]:
    """The containers of every document of a file, in its order."""
    return tuple(workload for document in documents for workload in _workloads(document, file))


def unread_documents(documents: Iterable[Tree], file: str) -> Iterator[Unread]:
    """Documents that hold no pod and no service, and still have a command or ask for GPUs."""
    for document in documents:
        if not any(_workloads(document, file)) and starts_something(document):
            kind = document.at("kind").text() or "a document without a kind"
            what = f"{kind} has a command or asks for GPUs, and no pod in it is known"
            yield Unread(f"{file}:{document.line}", what, "launch")


def _workloads(document: Tree, file: str) -> Iterator[Workload]:
    is_compose = not document.at("kind") and isinstance(document.at("services").value, dict)
    yield from read_compose(document, file) if is_compose else read_kubernetes(document, file)
