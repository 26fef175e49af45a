"""Containers that serve, out of a compose file or Kubernetes manifests.

Read are compose services and Deployment, StatefulSet, DaemonSet, Pod, Job,
ReplicaSet and LeaderWorkerSet. Other kinds are passed over: they start no engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from enginewatch.preflight.readers.shell import Word, read_script
from enginewatch.preflight.readers.shell_lexer import ShellError
from enginewatch.preflight.readers.workload import Probe, Workload
from enginewatch.preflight.readers.yamldata import Tree
from enginewatch.units import parse_duration, parse_size

_TEMPLATES: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "Pod": ((),),
    "Deployment": (("spec", "template"),),
    "StatefulSet": (("spec", "template"),),
    "ReplicaSet": (("spec", "template"),),
    "DaemonSet": (("spec", "template"),),
    "Job": (("spec", "template"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
}
"""Where each kind keeps its pod."""
_GPU: Final = re.compile(r"^(?:nvidia|amd)\.com/(?:gpu|mig-.+)$")
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]i?|k|m)?", re.ASCII)
_POWERS: Final = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_REFERENCE: Final = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)")
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-?+])([^}]*))?\}|([A-Za-z_]\w*))")
_KUBERNETES: Final = {"period_s": 10.0, "timeout_s": 1.0, "failures": 3.0, "delay_s": 0.0}
"""Defaults of a probe's times (Kubernetes API reference, v1.Probe)."""
_COMPOSE: Final = {"period_s": 30.0, "timeout_s": 30.0, "failures": 3.0, "delay_s": 0.0}
"""Defaults of a healthcheck (Dockerfile reference, HEALTHCHECK)."""
_GRACE: Final = 30.0
_COMPOSE_GRACE: Final = 10.0


def read_manifest(documents: Iterable[Tree], file: str) -> tuple[Workload, ...]:
    """The containers of every document of a file, in its order."""
    found: list[Workload] = []
    for document in documents:
        if document.at("kind").text() == "List":
            for item in document.at("items").each():
                found += _kubernetes(item, file)
        elif document.at("kind"):
            found += _kubernetes(document, file)
        elif isinstance(document.at("services").value, dict):
            found += _compose(document, file)
    return tuple(found)


def _kubernetes(document: Tree, file: str) -> Iterator[Workload]:
    kind = document.at("kind").text()
    name = document.at("metadata", "name").text()
    replicas = document.at("spec", "replicas").number()
    for path in _TEMPLATES.get(kind, ()):
        spec = document.at(*path).at("spec")
        for container in spec.at("containers").each():
            yield replace(
                _container(container, spec, file),
                name=f"{name}/{container.at('name').text()}",
                kind=kind,
                replicas=None if replicas is None else int(replicas),
            )


def _container(container: Tree, pod: Tree, file: str) -> Workload:
    notes: list[str] = []
    env = dict(_environment(container.at("env"), notes))
    for source in container.at("envFrom").each():
        name = next((f"{key} {each.at('name').text()}" for key, each in source.items()), "")
        notes.append(f"the environment from {name}")
    command, arguments = container.at("command"), container.at("args")
    words = [*_words(command, env), *_words(arguments, env)]
    grace = pod.at("terminationGracePeriodSeconds").number()
    gpus, resource = _gpus(container.at("resources"))
    return Workload(
        name="",
        kind="",
        image=container.at("image").text(),
        where=f"{file}:{container.line}",
        words=tuple(words),
        entrypoint=bool(command),
        env=env,
        gpus=gpus,
        gpu_resource=resource,
        shm_bytes=_shm(container, pod),
        shares_ipc=pod.at("hostIPC").value is True,
        probes=tuple(_probes(container, file)),
        grace_s=_GRACE if grace is None else grace,
        notes=tuple(notes),
    )


def _environment(env: Tree, notes: list[str]) -> Iterator[tuple[str, Word]]:
    """Plain values; one from a secret, a field or a config map is not known here."""
    before: dict[str, str] = {}
    for entry in env.each():
        name, value = entry.at("name").text(), entry.at("value")
        if not name:
            continue
        known = entry.at("valueFrom").value is None
        text = _REFERENCE.sub(lambda m: before.get(m[1], m[0]), value.text()) if known else ""
        if not known:
            notes.append(f"the value of {name}")
        before[name] = text
        yield name, Word(text, text, entry.line, known)


def _words(words: Tree, env: Mapping[str, Word]) -> Iterator[Word]:
    """A list of words, `$(NAME)` filled in as Kubernetes does."""
    for word in words.each():
        text = word.text()
        known = True

        def filled(match: re.Match[str]) -> str:
            return env[match[1]].text if match[1] in env and env[match[1]].known else match[0]

        text = _REFERENCE.sub(filled, text)
        known = not any(name in env and not env[name].known for name in _REFERENCE.findall(text))
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
        yield _probe(kind, _asks(probe), f"{file}:{probe.line}", given, _KUBERNETES)


def _asks(probe: Tree) -> str:
    command = " ".join(word.text() for word in probe.at("exec", "command").each())
    socket = probe.at("tcpSocket", "port").text()
    return probe.at("httpGet", "path").text() or command or (f"tcp {socket}" if socket else "grpc")


def _probe(
    kind: str,
    asks: str,
    where: str,
    given: Mapping[str, float | None],
    defaults: Mapping[str, float],
) -> Probe:
    times = {name: value for name, value in given.items() if value is not None}
    filled = {**defaults, **times}
    return Probe(
        kind=kind,
        asks=asks,
        where=where,
        period_s=filled["period_s"],
        timeout_s=filled["timeout_s"],
        failures=int(filled["failures"]),
        delay_s=filled["delay_s"],
    )


def _compose(document: Tree, file: str) -> Iterator[Workload]:
    for name, service in document.at("services").items():
        notes: list[str] = []
        env = dict(_compose_env(service.at("environment")))
        if service.at("env_file"):
            notes.append("the environment file")
        entry = _compose_words(service.at("entrypoint"), file)
        command = _compose_words(service.at("command"), file)
        grace = _span(service.at("stop_grace_period"))
        yield Workload(
            name=name,
            kind="compose",
            image=_interpolated(service.at("image").text())[0],
            where=f"{file}:{service.line}",
            words=(*entry, *command),
            entrypoint=bool(entry),
            env=env,
            gpus=_compose_gpus(service),
            shm_bytes=_bytes(service.at("shm_size")),
            shares_ipc=service.at("ipc").text() == "host",
            probes=tuple(_healthcheck(service.at("healthcheck"), file)),
            grace_s=_COMPOSE_GRACE if grace is None else grace,
            notes=tuple(notes),
        )


def _compose_env(environment: Tree) -> Iterator[tuple[str, Word]]:
    """A mapping, or a list of `NAME=value`; a name without a value comes from the shell."""
    for name, value in environment.items():
        text, known = _interpolated(value.text())
        yield name, Word(text, text, value.line, known and value.value is not None)
    for entry in environment.each():
        name, equals, value_text = entry.text().partition("=")
        text, known = _interpolated(value_text)
        yield name, Word(text, text, entry.line, known and bool(equals))


def _compose_words(words: Tree, file: str) -> list[Word]:
    """A list, or a text that compose splits as a shell would."""
    if isinstance(words.value, str):
        text = _interpolated(words.value)[0]
        try:
            commands = read_script(text.replace("\n", " "), file, first_line=words.line).commands
        except ShellError:
            return [Word(text, text, words.line)]
        return [word._replace(line=words.line) for each in commands for word in each.words]
    found: list[Word] = []
    for word in words.each():
        text, known = _interpolated(word.text())
        found.append(Word(text, text, word.line, known))
    return found


def _interpolated(text: str) -> tuple[str, bool]:
    """Compose's `${NAME:-default}` as its default, `$$` as `$`, and whether all is known."""
    known = True

    def value(found: re.Match[str]) -> str:
        nonlocal known
        if found[2] and found[2].endswith("-"):
            return found[3]
        known = False
        return found[0]

    parts = [_VARIABLE.sub(value, part) for part in text.split("$$")]
    return "$".join(parts), known


def _compose_gpus(service: Tree) -> int | None:
    for device in service.at("deploy", "resources", "reservations", "devices").each():
        if not any(each.text() == "gpu" for each in device.at("capabilities").each()):
            continue
        if device.at("device_ids").each():
            return len(device.at("device_ids").each())
        count = device.at("count")
        number = count.number()
        return -1 if number is None else int(number)
    gpus = service.at("gpus")
    return -1 if gpus.text() == "all" else None


def _healthcheck(check: Tree, file: str) -> Iterator[Probe]:
    if check.value is None or check.at("disable").value is True:
        return
    test = check.at("test")
    asks = test.text() or " ".join(word.text() for word in test.each())
    given = {
        "period_s": _span(check.at("interval")),
        "timeout_s": _span(check.at("timeout")),
        "failures": check.at("retries").number(),
        "delay_s": _span(check.at("start_period")),
    }
    yield _probe("health", asks, f"{file}:{check.line}", given, _COMPOSE)


def _span(tree: Tree) -> float | None:
    """A duration of Go (`1m30s`) in seconds."""
    try:
        return parse_duration(tree.text()) / 1000 if tree else None
    except ValueError:
        return None


def _bytes(tree: Tree) -> int | None:
    if isinstance(tree.value, int):
        return tree.value
    try:
        return parse_size(tree.text()) if tree else None
    except ValueError:
        return None
