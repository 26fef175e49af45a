"""What a process is called in `ps`: Linux only, written over its own argument vector.

The kernel reads /proc/PID/cmdline out of the process' memory (proc_pid_cmdline(5)), from arg_start
to arg_end of /proc/PID/stat, so a title may be as long as the command line that it replaces.
"""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path
from typing import Final

_PR_SET_NAME: Final = 15
_ARG_START: Final = 48
"""Number of the field in proc_pid_stat(5); arg_end is the next."""


def set_title(title: str) -> None:
    """Call this process `title`; left as it is without /proc, or where the title has no room."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        _, _, rest = Path("/proc/self/stat").read_text().rpartition(")")
        fields = rest.split()
        start, end = (int(fields[_ARG_START + offset - 3]) for offset in (0, 1))
        room = end - start
        text = title.encode()
        if start and len(text) < room:
            ctypes.memmove(start, text.ljust(room, b"\0"), room)
            ctypes.CDLL(None).prctl(_PR_SET_NAME, text[:15], 0, 0, 0)
