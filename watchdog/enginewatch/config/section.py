"""What all sections of the configuration have in common, and the types of their values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    SecretStr,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from enginewatch.config.errors import ConfigError
from enginewatch.model import Millis
from enginewatch.units import parse_address, parse_duration, parse_size

_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def fault(what: str, hint: str = "", at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """What a validator raises: the problem, its remedy, and where below the value it is."""
    # The template has no braces of its own: `what` may quote what was found.
    return PydanticCustomError("fault", "{what}", {"what": what, "hint": hint, "at": at})


class Section(BaseModel):
    """A mapping with known keys. A key without a value counts as not given."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that readers of Prometheus' or Alertmanager's manual may try, and what to do instead."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if data is None:
            return {}
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data


def _text(value: Any) -> Any:
    return "" if value is None else value


def _duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _positive(value: Millis) -> Millis:
    if value <= 0:
        raise ValueError("must be longer than 0s")
    return value


def _size(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value


def _resolved(value: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base", Path())
    return Path(base) / value.expanduser()


def _label_names(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if not _LABEL_NAME.fullmatch(name):
            raise fault(f"{name!r} is not a label name", "letters, digits and _", (name,))
    return labels


def _own_labels(labels: dict[str, str]) -> dict[str, str]:
    for name in _label_names(labels):
        if name.startswith("__"):
            raise fault(f"label {name!r} is reserved", "names that start with __ are", (name,))
    return labels


def check_url(url: str) -> str:
    """An http URL without credentials: those would show up wherever the URL does.

    Raises a fault that does not show the URL.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its reason may quote the URL
        raise fault("not a URL", "like http://host:8000/path") from None
    if parts.username is not None or parts.password is not None:
        raise fault("the URL has credentials in it", "move them to basic_auth or authorization")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise fault("not a URL", "like http://host:8000/path")
    return url


def host_and_port(example: str) -> AfterValidator:
    """A `host:port`; where it is none, `example` is told, and its port on IPv6's loopback."""

    def check(value: str) -> str:
        try:
            parse_address(value)
        except ValueError as failure:
            port = parse_address(example)[1]
            raise fault(str(failure), f"like {example} or [::1]:{port}") from None
        return value

    return AfterValidator(check)


Duration = Annotated[Millis, BeforeValidator(_duration)]
PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
Size = Annotated[int, BeforeValidator(_size)]
ConfigPath = Annotated[Path, AfterValidator(_resolved)]
"""A path; relative ones start at the folder of the configuration file."""
LabelText = Annotated[str, BeforeValidator(_text)]
OwnLabels = Annotated[dict[str, LabelText], AfterValidator(_own_labels)]
TargetLabels = Annotated[dict[str, LabelText], AfterValidator(_label_names)]
"""Labels of targets, where `__metrics_path__` and its like may stand too."""
WebUrl = Annotated[str, AfterValidator(check_url)]


def one_of(section: BaseModel, *names: str) -> None:
    """Raise a fault unless at most one of these fields is given."""
    given = [name for name in names if getattr(section, name) is not None]
    if len(given) > 1:
        raise fault(f"{' and '.join(given)} are both given", "one of them is enough")


def read_secret(inline: SecretStr | None, file: Path | None, variable: str | None) -> str | None:
    """The secret, from wherever it is configured to come; None when it is not.

    Files and the environment are read at each use, so that a rotated secret is
    seen. Blanks around it are dropped, as editors leave a newline at the end of a
    file. Raises ConfigError, which never shows the secret.
    """
    if inline is not None:
        return inline.get_secret_value().strip()
    if file is not None:
        return _printable(read_text(file, "the secret").strip(), str(file))
    if variable is not None:
        value = os.environ.get(variable)
        if not value:
            raise ConfigError(f"the environment variable {variable} is not set")
        return _printable(value.strip(), f"${variable}")
    return None


def read_text(file: Path, what: str) -> str:
    """The text of a file. Raises ConfigError naming it as `what`."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as failure:
        raise ConfigError(
            f"can't read {what}: {failure.strerror or failure}", where=str(file)
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"can't read {what}: it is not UTF-8", where=str(file)) from None


def matching(pattern: Path) -> list[Path]:
    """The files that a path, or a glob, names now."""
    if pattern.exists():  # a name may have a bracket in it
        return [pattern]
    anchor = Path(pattern.anchor)
    return sorted(anchor.glob(str(pattern.relative_to(anchor))))


def _printable(secret: str, where: str) -> str:
    if not secret:
        raise ConfigError("the secret is empty", where=where)
    if not secret.isprintable():
        raise ConfigError("the secret has a line break or control character in it", where=where)
    return secret
