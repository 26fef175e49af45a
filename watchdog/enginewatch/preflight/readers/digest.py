"""What is in a file, as a digest: of all of it, or of its head, its end and a few places between.

A whole digest of a checkpoint takes minutes. The sampled one reads 128 KiB of each file
and tells weights that were trained, quantized or built anew, which differ everywhere; it does
not see a few changed bytes. So the whole one is made when an engine is stamped or verified,
and the sampled one is what preflight compares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from enginewatch.preflight.readers.ranges import Ranges, ShortError

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes done and the bytes of all of it."""

_PIECE: Final = 8 << 20
_PLACES: Final = 8
_SAMPLE: Final = 16 << 10


class Digest(NamedTuple):
    """`size` in bytes; digests are SHA-256 in hexadecimal, `whole` empty where not computed."""

    size: int
    sampled: str
    whole: str = ""


def sampled(path: Path) -> Digest:
    """Of size and samples. Raises OSError."""
    with path.open("rb") as stream:
        ranges = Ranges(stream)
        size = ranges.size
        digest = hashlib.sha256(size.to_bytes(8, "little"))
        length = min(_SAMPLE, size)
        last = size - length
        try:
            for place in sorted({last * n // (_PLACES - 1) for n in range(_PLACES)}):
                digest.update(ranges.read(place, length))
        except ShortError:
            raise OSError("it became shorter while it was read") from None
    return Digest(size, digest.hexdigest())


def whole(path: Path, progress: Progress | None = None) -> Digest:
    """Of all bytes. Raises OSError."""
    quick = sampled(path)
    digest = hashlib.sha256()
    done = 0
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
            done += len(piece)
            if progress is not None:
                progress(path.name, done, quick.size)
    return quick._replace(whole=digest.hexdigest())
