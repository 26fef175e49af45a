"""Containers of Kubernetes manifests: of every pod that a document holds, whatever its kind.

A pod is told by its list of `containers`, so that kinds that operators add (Rollout,
InferenceService, LeaderWorkerSet) are read as Deployments are. Init containers are read
too: one that restarts always is a sidecar, and runs for as long as the pod does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from enginewatch.preflight.readers.shell import Word
from enginewatch.preflight.readers.workload import Probe, Workload, is_template, probe_of
from enginewatch.preflight.readers.yamldata import Tree

_GPU: Final = re.compile(r"^(?:nvidia|amd)\.com/(?:gpu(?:\.shared)?|mig-.+)$")
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]i?|k|m)?", re.ASCII)
_POWERS: Final = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_REFERENCE: Final = re.compile(r"\$(\$?)\(([A-Za-z_][\w.-]*)\)")
_DEFAULTS: Final = {"period_s": 10.0, "timeout_s": 1.0, "failures": 3.0, "delay_s": 0.0}
"""Defaults of a probe's times (Kubernetes API reference, v1.Probe)."""
_GRACE_S: Final = 30.0
"""From SIGTERM to SIGKILL, where `terminationGracePeriodSeconds` is not given."""


class _Environment(NamedTuple):
    """`is_whole`: nothing comes from a config map or a secret as a whole (`envFrom`)."""

    words: Mapping[str, Word]
    is_whole: bool

    def filled(self, text: str) -> tuple[str, bool]:
        """`$(NAME)` filled in as Kubernetes does, which leaves a name that is not set as it stands,
        and takes `$$(NAME)` for no reference; and whether all of the text is known."""
        known = not is_template(text)

        def value(found: re.Match[str]) -> str:
            nonlocal known
            if found[1]:
                return f"$({found[2]})"
            word = self.words.get(found[2])
            known = known and (self.is_whole if word is None else word.known)
            return word.text if word is not None and word.known else found[0]

        return _REFERENCE.sub(value, text), known


def read_kubernetes(document: Tree, file: str) -> Iterator[Workload]:
    """The containers of a document, in its order; none where it holds no pod."""
    kind, name = document.at("kind").text(), document.at("metadata", "name").text()
    if kind == "List":
        for item in document.at("items").each():
            yield from read_kubernetes(item, file)
        return
    for pod in _pods(document):
        for container in (*pod.at("initContainers").each(), *pod.at("containers").each()):
            found = _container(container, pod, file)
            yield replace(found, name=f"{name}/{container.at('name').text()}", kind=kind)


def _pods(tree: Tree) -> Iterator[Tree]:
    if tree.at("containers").each():
        yield tree
        return
    for below in tree.below():
        yield from _pods(below)


def starts_something(document: Tree) -> bool:
    """Whether a document without a pod has a command, or asks for GPUs: an operator makes pods of
    it in a way that is not known here."""
    return any(
        isinstance(below.value, list) if name in {"args", "command"} else _GPU.match(name)
        for name, below in document.items()
    ) or any(starts_something(below) for below in document.below())


def _container(container: Tree, pod: Tree, file: str) -> Workload:
    notes: list[str] = []
    sources = container.at("envFrom").each()
    env = _environment(container.at("env"), notes, is_whole=not sources)
    for source in sources:
        name = next((f"{key} {each.at('name').text()}" for key, each in source.items()), "")
        notes.append(f"the environment from {name}")
    command, arguments = container.at("command"), container.at("args")
    words = [*_words(command, env), *_words(arguments, env)]
    grace = pod.at("terminationGracePeriodSeconds").number()
    gpus, resource = _gpus(container.at("resources"))
    if resource and gpus is None:
        notes.append(f"the number of GPUs ({resource})")
    return Workload(
        name="",
        kind="",
        image=container.at("image").text(),
        where=f"{file}:{container.line}",
        words=tuple(words),
        entrypoint=bool(command),
        env=env.words,
        gpus=gpus,
        gpu_resource=resource,
        shm_bytes=_shm(container, pod),
        shares_ipc=pod.at("hostIPC").value is True,
        probes=tuple(_probes(container, file)),
        grace_s=_GRACE_S if grace is None else grace,
        notes=tuple(notes),
    )


def _environment(env: Tree, notes: list[str], *, is_whole: bool) -> _Environment:
    """Plain values; one from a secret, a field or a config map is not known here."""
    found: dict[str, Word] = {}
    for entry in env.each():
        name = entry.at("name").text()
        if not name:
            continue
        if entry.at("valueFrom").value is None:
            text, known = _Environment(found, is_whole).filled(entry.at("value").text())
        else:
            text, known = "", False
            notes.append(f"the value of {name}")
        found[name] = Word(text, text, entry.line, known)
    return _Environment(found, is_whole)


def _words(words: Tree, env: _Environment) -> Iterator[Word]:
    for word in words.each():
        text, known = env.filled(word.text())
        yield Word(text, text, word.line, known)


def _gpus(resources: Tree) -> tuple[int | None, str]:
    for part in ("limits", "requests"):
        for name, amount in resources.at(part).items():
            if _GPU.match(name):
                count = amount.number()
                return (None if count is None else int(count)), name
    return None, ""


def _shm(container: Tree, pod: Tree) -> int | None:
    """The size of the memory volume at /dev/shm; half of the node's memory, here -1, without one.

    Without a mount it is the runtime's default (64 MiB with containerd and Docker).
    """
    for mount in container.at("volumeMounts").each():
        if mount.at("mountPath").text().rstrip("/") != "/dev/shm":  # noqa: S108 - compared
            continue
        for volume in pod.at("volumes").each():
            if volume.at("name").text() == mount.at("name").text():
                limit = volume.at("emptyDir", "sizeLimit").text()
                return quantity(limit) if limit else -1
    return None


def quantity(text: str) -> int | None:
    """`16Gi` as bytes, None for what is no quantity of Kubernetes."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        return None
    unit = found[2] or ""
    if unit.endswith("i"):
        scale: float = 1024 ** " KMGTP".index(unit[0])
    else:
        scale = 0.001 if unit == "m" else _POWERS.get(unit, 1)
    return int(float(found[1]) * scale)


def _probes(container: Tree, file: str) -> Iterator[Probe]:
    for kind in ("startup", "readiness", "liveness"):
        probe = container.at(f"{kind}Probe")
        if probe.value is None:
            continue
        given = {
            "period_s": probe.at("periodSeconds").number(),
            "timeout_s": probe.at("timeoutSeconds").number(),
            "failures": probe.at("failureThreshold").number(),
            "delay_s": probe.at("initialDelaySeconds").number(),
        }
        yield probe_of(kind, _asks(probe), f"{file}:{probe.line}", given, _DEFAULTS)


def _asks(probe: Tree) -> str:
    command = " ".join(word.text() for word in probe.at("exec", "command").each())
    socket = probe.at("tcpSocket", "port").text()
    return probe.at("httpGet", "path").text() or command or (f"tcp {socket}" if socket else "grpc")
