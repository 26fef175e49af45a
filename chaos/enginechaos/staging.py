"""The target file: a deployment that is not ours to break, and all that may be done to it.

Nothing has a default that reaches further than the file says: no hazard may be induced that
is not named, and whatever looks like production is refused, whoever asks.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from enginechaos.errors import Refused, TargetError
from enginechaos.load import Mix
from enginechaos.target import ROLES, TIERS, Guard, Limits

PRODUCTION: Final = re.compile(
    r"(?:^|[-_./ ])(?:prod|prd|production|live)(?:$|[-_./ \d])", re.IGNORECASE
)
"""In a name or label: `chat-prod`, `production`, `eu/live`; not `product` or `alive`."""


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EnginePart(Part):
    url: str = Field(pattern=r"^https?://")
    """Of the OpenAI-compatible API, without /v1."""
    metrics: str | None = Field(default=None, pattern=r"^https?://")
    model: str
    runtime: str = "vllm"
    logs: tuple[Path, ...] = ()
    """For a watchdog that is started here."""
    token_file: Path | None = None
    """Of a bearer token for the API."""


class ActPart(Part):
    """How faults reach the machine. Which keys there are depends on `kind`."""

    kind: Literal["local", "kubectl", "ssh", "docker"]
    port: int | None = None
    """local: the engine is what listens there, and its descendants; the URL's if not given."""
    pod: str | None = None
    namespace: str | None = None
    container: str | None = None
    context: str | None = None
    program: str | None = None
    host: str | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.kind == "kubectl" and not self.pod:
            raise ValueError("kind kubectl needs a pod, such as deployment/chat")
        return self


class WatchdogPart(Part):
    """One that runs (`url`), whose webhook leads to `receivers.listen`; or one started here."""

    url: str | None = Field(default=None, pattern=r"^https?://")
    start: bool = False

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.url is None) is not self.start:
            raise ValueError("give url, or start: true")
        return self


class ReceiversPart(Part):
    listen: str = Field(default="127.0.0.1:0", pattern=r"^.+:\d+$")
    names: tuple[Literal["webhook", "slack", "pagerduty"], ...] = ("webhook",)


class LimitsPart(Part):
    """Seconds."""

    fault: float = Field(default=120.0, gt=0)
    run: float = Field(default=1800.0, gt=0)
    steady: float = Field(default=90.0, gt=0)


class GuardPart(Part):
    query: str
    above: float | None = None
    below: float | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.above is None and self.below is None:
            raise ValueError("give above or below")
        return self


class LoadPart(Part):
    clients: int = Field(default=2, ge=0, le=64)
    prompt: tuple[int, int] = (16, 160)
    answer: tuple[int, int] = (32, 128)


class StagingFile(Part):
    """A target file. `environment` is its own word for what it is."""

    environment: str
    name: str = Field(min_length=1)
    deployment: str = Field(min_length=1)
    tier: str = "staging"
    engine: EnginePart
    act: ActPart
    processes: dict[str, str] = Field(default_factory=dict)
    may_induce: tuple[str, ...] = ()
    limits: LimitsPart = LimitsPart()
    abort_when: tuple[GuardPart, ...] = ()
    watchdog: WatchdogPart
    receivers: ReceiversPart = ReceiversPart()
    load: LoadPart = LoadPart()
    budgets: dict[str, dict[Literal["detect", "deliver", "resolve"], float]] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.tier not in TIERS[1:]:
            raise ValueError(f"tier {self.tier!r} is none of {', '.join(TIERS[1:])}")
        unknown = set(self.processes) - set(ROLES)
        if unknown:
            raise ValueError(f"processes: no role {min(unknown)!r}, only {', '.join(ROLES)}")
        return self

    @property
    def run_seconds(self) -> float:
        return self.limits.run

    @property
    def guards(self) -> tuple[Guard, ...]:
        return tuple(Guard(each.query, each.above, each.below) for each in self.abort_when)

    @property
    def caps(self) -> Limits:
        return Limits(self.limits.fault, self.limits.run)

    @property
    def mix(self) -> Mix:
        return Mix(self.load.clients, self.load.prompt, self.load.answer)

    @property
    def identity(self) -> str:
        """What two runs may not share."""
        return f"{self.engine.url} ({self.deployment})"

    def headers(self) -> dict[str, str]:
        """Raises TargetError when the token can't be read."""
        if self.engine.token_file is None:
            return {}
        try:
            token = self.engine.token_file.read_text(encoding="utf-8").strip()
        except OSError as failure:
            raise TargetError(
                f"the token can't be read: {failure.strerror}", where=str(self.engine.token_file)
            ) from None
        return {"Authorization": f"Bearer {token}"}


def read(path: Path) -> StagingFile:
    """A target file. Raises TargetError with the place of the first thing that is wrong."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise TargetError(f"can't be read: {failure.strerror}", where=str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as failure:
        mark = getattr(failure, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        reason = getattr(failure, "problem", None) or "not UTF-8 text"
        raise TargetError(f"not YAML: {reason}", where=where) from None
    if not isinstance(found, dict):
        raise TargetError("not a target file: it has no keys", where=str(path))
    try:
        file = StagingFile.model_validate(found)
    except ValidationError as wrong:
        raise _complaint(wrong, path) from None
    return _beside(file, path.parent)


def refuse_production(file: StagingFile, typed: str | None, where: str) -> None:
    """Raises Refused unless the file says it is no production, and the user says the same name."""
    if file.environment.lower() not in {"staging", "test", "development", "ci"}:
        raise Refused(
            f"environment {file.environment!r}: faults are induced in staging only",
            where=where,
            hint="environment: staging, if that is what it is (or test, development, ci)",
        )
    for what, text in _names(file):
        if PRODUCTION.search(text):
            raise Refused(f"{what} {text!r} looks like production", where=where)
    if typed != file.name:
        said = "nothing was typed" if typed is None else f"{typed!r} was typed"
        raise Refused(
            f"this breaks {file.name!r} on purpose, and {said}",
            where=where,
            hint=f"if that is what you mean: --i-mean {file.name}; to see the plan: --dry-run",
        )


def refuse_labels(labels: Mapping[str, str], where: str) -> None:
    """Raises Refused when a label of the endpoint says production."""
    for name, value in labels.items():
        if PRODUCTION.search(value):
            raise Refused(
                f'the endpoint has the label {name}="{value}": it looks like production',
                where=where,
            )


def _names(file: StagingFile) -> Iterator[tuple[str, str]]:
    yield "name", file.name
    yield "deployment", file.deployment
    for key in ("namespace", "context", "pod"):
        if getattr(file.act, key):
            yield f"act.{key}", getattr(file.act, key)


def _beside(file: StagingFile, folder: Path) -> StagingFile:
    """With paths that start at the file's own folder."""
    engine = file.engine
    changes: dict[str, Any] = {"logs": tuple(folder / each for each in engine.logs)}
    if engine.token_file is not None:
        changes["token_file"] = folder / engine.token_file
    return file.model_copy(update={"engine": engine.model_copy(update=changes)})


def _complaint(wrong: ValidationError, path: Path) -> TargetError:
    first = wrong.errors()[0]
    place = ".".join(map(str, first["loc"])) or "the file"
    where = f"{path}: {place}"
    if first["type"] == "extra_forbidden":
        return TargetError("unknown key", where=where, hint=_near(first["loc"]))
    if first["type"] == "missing":
        return TargetError("is missing", where=where)
    return TargetError(first["msg"].removeprefix("Value error, "), where=where)


def _near(place: tuple[int | str, ...]) -> str:
    """The key that was perhaps meant, or those that there are."""
    part: Any = StagingFile
    for key in place[:-1]:
        known = getattr(part, "model_fields", {}).get(key)
        part = getattr(known, "annotation", None)
    names = list(getattr(part, "model_fields", {}))
    near = difflib.get_close_matches(str(place[-1]), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(names)}"
