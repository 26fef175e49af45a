"""From the options that name built things to facts: engines, repositories, libraries.

A path that isn't there is wrong use; what is wrong inside is an `Unread`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.readers.engine_dir import read_engine_dir
from enginewatch.preflight.readers.gpu_code import LIBRARY, read_gpu_code
from enginewatch.preflight.readers.repository import read_repository
from enginewatch.preflight.readers.stampfile import read_stamp
from enginewatch.preflight.readers.unread import Unread

_MOST_LIBRARIES: Final = 5_000
_DEEPEST: Final = 6


def folder(value: str, option: str) -> Path:
    """A directory that is there. Raises PreflightError."""
    try:
        path = Path(value).expanduser()
        if path.is_dir():
            return path
        what = "is not a directory" if path.exists() else "does not exist"
    except (OSError, RuntimeError, ValueError) as failure:
        raise _unusable(value, option, failure) from None
    raise PreflightError(f"{path} {what}", where=option)


def place(value: str, option: str) -> Path:
    """The path that is meant, whatever is there. Raises PreflightError where it can't be any."""
    try:
        path = Path(value).expanduser()
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, RuntimeError, ValueError) as failure:
        raise _unusable(value, option, failure) from None
    return path


def _unusable(value: str, option: str, failure: Exception) -> PreflightError:
    """A path that can't even be looked for: too long, of an unknown home, out of bounds."""
    why = failure.strerror if isinstance(failure, OSError) else str(failure)
    return PreflightError(f"{value[:80]} can't be read: {why}", where=option)


def engine_dir(value: str) -> Facts:
    """`--engine-dir`."""
    return _engine(folder(value, "--engine-dir"))


def _engine(path: Path) -> Facts:
    """An engine directory, with its stamp if it has one."""
    found, stamp = read_engine_dir(path), read_stamp(path)
    facts = Facts(engines=(found,), unread=found.unread)
    if isinstance(stamp, Unread):
        return facts + Facts(unread=(stamp,))
    return facts + Facts(stamps=(stamp,)) if stamp is not None else facts


def model_repository(value: str) -> Facts:
    """`--model-repository`, with the engine directories that its models name, where they are."""
    found = read_repository(folder(value, "--model-repository"))
    facts = Facts(repositories=(found,), unread=found.unread)
    named = dict.fromkeys(path for model in found.models for path in model.engine_dirs)
    for path in named:
        if Path(path).is_dir():
            facts += _engine(Path(path))
        else:
            what = "a model of the repository names this engine directory, which is not here"
            facts += Facts(unread=(Unread(path, what, "architecture"),))
    return facts


def library(value: str) -> Facts:
    """`--library`: a shared library, a cubin, a wheel, or a folder of them."""
    try:
        path = Path(value).expanduser()
        if not path.exists():
            raise PreflightError(f"{path} does not exist", where="--library")
        files = _libraries(path) if path.is_dir() else [path]
    except (OSError, RuntimeError, ValueError) as failure:
        raise _unusable(value, "--library", failure) from None
    if len(files) > _MOST_LIBRARIES:
        what = f"holds {len(files)} libraries; name the folder of one package"
        return Facts(unread=(Unread(str(path), what, "architecture"),))
    found = tuple(code for file in files for code in read_gpu_code(file))
    unread = tuple(
        Unread(each.where, each.problem, "architecture") for each in found if each.problem
    )
    return Facts(libraries=found, unread=unread)


def _libraries(path: Path, depth: int = 0) -> list[Path]:
    """Files that can hold GPU code, below a folder; links to folders are not followed."""
    found: list[Path] = []
    for each in sorted(path.iterdir()):
        if each.is_dir() and not each.is_symlink() and depth < _DEEPEST:
            found += _libraries(each, depth + 1)
        elif (LIBRARY.search(each.name) or each.suffix == ".whl") and each.is_file():
            found.append(each)
    return found
