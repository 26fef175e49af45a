"""Runs somebody's code where it can compute and do nothing else. Started by `sandbox`, alone.

Standard input: `{"programs": [{"code", "function", "cases": [[argument, ...], ...]}]}`.
Standard output: for each program a list with `{"value": ...}` or `{"error": ...}` for each case.

It imports nothing of enginewatch, and runs with -I -S: what it has is the standard
library, and of that only what is imported before the door closes.
"""

# ruff: noqa: F401, S102, BLE001 - imported for the code that runs here; running it is the purpose
from __future__ import annotations

import bisect
import collections
import copy
import ctypes
import datetime
import decimal
import errno
import fractions
import functools
import heapq
import itertools
import json
import math
import operator
import os
import random
import re
import resource
import string
import struct
import sys
import typing

# System calls by their numbers in asm/unistd.h: computing, memory, reading and writing what is
# open already, and the end. Sleeping is not among them: what takes long must take processor time.
_X86_64 = """
    read 0 write 1 close 3 fstat 5 lseek 8 mmap 9 mprotect 10 munmap 11 brk 12 rt_sigaction 13
    rt_sigprocmask 14 rt_sigreturn 15 sched_yield 24 mremap 25 madvise 28 getpid 39
    exit 60 gettimeofday 96 sigaltstack 131 gettid 186 futex 202 restart_syscall 219
    clock_gettime 228 clock_getres 229 exit_group 231 getrandom 318
"""
_AARCH64 = """
    close 57 lseek 62 read 63 write 64 fstat 80 exit 93 exit_group 94 futex 98
    clock_gettime 113 clock_getres 114 sched_yield 124 restart_syscall 128
    sigaltstack 132 rt_sigaction 134 rt_sigprocmask 135 rt_sigreturn 139 gettimeofday 169
    getpid 172 gettid 178 brk 214 munmap 215 mremap 216 mmap 222 mprotect 226 madvise 233
    getrandom 278
"""
_TABLES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
"""By machine: the architecture as linux/audit.h numbers it, and the calls."""

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_FILTER = 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_KILL = 0x80000000


class _Program(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _seccomp() -> None:
    """From here on the kernel refuses every system call that is not listed. Raises OSError."""
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in _TABLES:
        raise OSError(errno.ENOSYS, f"no list of system calls for {sys.platform} on {machine}")
    architecture, table = _TABLES[machine]
    calls = [int(word) for word in table.split() if word.isdigit()]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    steps.append((_LOAD, 0, 0, 0))
    steps += [(_EQUAL, len(calls) - place, 0, call) for place, call in enumerate(calls)]
    steps += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    packed = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(packed)
    program = _Program(len(steps), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def _limit(memory: int, seconds: int) -> None:
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_STACK, 16 << 20),
    ):
        resource.setrlimit(what, (most, most))


class _Nowhere:
    """Where prints go."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def _outcomes(program: dict[str, typing.Any]) -> list[dict[str, typing.Any]]:
    try:
        names: dict[str, typing.Any] = {"__name__": "answer"}
        exec(compile(program["code"], "answer", "exec"), names)
        function = names[program["function"]]
    except BaseException as failure:
        return [{"error": type(failure).__name__}] * len(program["cases"])
    return [_outcome(function, arguments) for arguments in program["cases"]]


def _outcome(function: typing.Any, arguments: list[typing.Any]) -> dict[str, typing.Any]:
    try:
        value = function(*copy.deepcopy(arguments))
        json.dumps(value, allow_nan=False)
    except BaseException as failure:
        return {"error": type(failure).__name__}
    return {"value": value}


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    sys.stdin.close()
    _limit(asked["memory"], asked["seconds"])
    _seccomp()
    sys.stdout = sys.stderr = typing.cast("typing.TextIO", _Nowhere())
    os.closerange(2, 256)
    # What is not there yet can't be loaded any more; ctypes is of no use to an honest answer.
    sys.modules.pop("ctypes", None)
    told = json.dumps([_outcomes(program) for program in asked["programs"]], allow_nan=False)
    text = told.encode()
    while text:
        text = text[os.write(1, text) :]
    os._exit(0)


if __name__ == "__main__":
    main()
