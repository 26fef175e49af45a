"""Ingresses and routes of Kubernetes manifests: how long they wait for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from enginewatch.preflight.readers.workload import Front
from enginewatch.preflight.readers.yamldata import Tree
from enginewatch.units import parse_duration

_NGINX: Final = "nginx.ingress.kubernetes.io/"
_NGINX_READ: Final = f"{_NGINX}proxy-read-timeout"
_NGINX_DEFAULT_S: Final = 60.0
"""ingress-nginx, proxy-read-timeout where it is not given."""


def read_fronts(documents: Iterable[Tree], file: str) -> tuple[Front, ...]:
    """Of Ingress (nginx), HTTPRoute, VirtualService (Istio) and BackendConfig (GKE)."""
    return tuple(
        front
        for document in documents
        for front in _fronts(document, document.at("kind").text(), file)
    )


def _fronts(document: Tree, kind: str, file: str) -> Iterator[Front]:
    if kind == "Ingress":
        yield from _ingress(document, file)
    elif kind == "HTTPRoute":
        for rule in document.at("spec", "rules").each():
            yield from _front(document, rule.at("timeouts", "request"), "timeouts.request", file)
    elif kind == "VirtualService":
        for rule in document.at("spec", "http").each():
            yield from _front(document, rule.at("timeout"), "timeout", file)
    elif kind == "BackendConfig":
        yield from _front(document, document.at("spec", "timeoutSec"), "timeoutSec", file)


def _ingress(document: Tree, file: str) -> Iterator[Front]:
    annotations = document.at("metadata", "annotations")
    given = annotations.at(_NGINX_READ)
    if given:
        yield from _front(document, given, "proxy-read-timeout", file)
    elif any(name.startswith(_NGINX) for name, _ in annotations.items()) or (
        document.at("spec", "ingressClassName").text() == "nginx"
    ):
        yield Front(
            name=document.at("metadata", "name").text(),
            kind="Ingress",
            where=f"{file}:{document.line}",
            timeout_s=_NGINX_DEFAULT_S,
            setting="proxy-read-timeout is not given",
        )


def _front(document: Tree, value: Tree, setting: str, file: str) -> Iterator[Front]:
    seconds = value.number()
    if seconds is None and value:
        try:
            seconds = parse_duration(value.text()) / 1000
        except ValueError:
            return
    if seconds:
        yield Front(
            name=document.at("metadata", "name").text(),
            kind=document.at("kind").text(),
            where=f"{file}:{value.line}",
            timeout_s=seconds,
            setting=f"{setting} {value.text()}",
        )
