"""Code that wants out: nothing that it does is seen outside, and it ends in time."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from enginewatch.canary import sandbox
from enginewatch.canary.sandbox import Limits, Program, Returned, SlowError, run

pytestmark = pytest.mark.skipif(not sandbox.available(), reason="code can't be run here")

SHORT = Limits(seconds=1)


def one(code: str, *arguments: object, limits: Limits = SHORT) -> Returned:
    ((found,),) = run([Program(code, "f", [arguments])], limits)
    return found


def test_it_computes() -> None:
    programs = [
        Program("def f(a, b): return a + b", "f", [[1, 2], ["x", "y"], [1, "y"]]),
        Program("import math\ndef g(x): return math.isqrt(x)", "g", [[49]]),
    ]
    assert run(programs) == [
        [Returned(3), Returned("xy"), Returned(error="TypeError")],
        [Returned(7)],
    ]


def test_arguments_are_each_call_s_own() -> None:
    values = [3, 1]
    program = Program("def f(v):\n v.append(0)\n return len(v)", "f", [[values], [values]])
    assert run([program]) == [[Returned(3), Returned(3)]]


@pytest.mark.parametrize(
    "act",
    [
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.kill(os.getppid(), 9)",
        "os.killpg(0, 9)",
        "os.setuid(0)",
        "os.chdir('/')",
        "os.listdir('/')",
        "os.mkdir('here')",
        "os.unlink('/etc/hostname')",
        "os.readlink('/proc/self/exe')",
        "os.pipe()",
        "os.dup(1)",
        "os.memfd_create('x')",
        "os.getcwd()",
        "open('/etc/passwd')",
        "open('/proc/self/mem', 'rb')",
        "open('file', 'w')",
        "os.system('true') and 1/0",
    ],
)
def test_the_kernel_refuses(act: str) -> None:
    assert one(f"import os\ndef f():\n {act}\n return 'did it'").error


@pytest.mark.parametrize(
    "module", ["socket", "_socket", "subprocess", "threading", "multiprocessing", "ctypes", "mmap"]
)
def test_what_is_not_loaded_stays_out(module: str) -> None:
    assert one(f"import {module}\ndef f(): return 1").error in {
        "ModuleNotFoundError",
        "ImportError",
        "PermissionError",
        "OSError",
    }


def test_a_file_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert one(f"def f():\n open({str(path)!r}, 'w').write('x')").error == "PermissionError"
    assert not path.exists()


def test_the_network_is_out_of_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        # Even with the module's compiled part at hand, there is no socket to be had.
        code = f"""
import sys
def f():
    raw = sys.modules['os'].sys.modules
    import importlib.machinery as m
    import _socket
    _socket.socket().connect(('127.0.0.1', {port}))
"""
        assert one(code).error
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_fork_bomb_is_one_process() -> None:
    before = _children()
    assert one("import os\ndef f():\n while True:\n  os.fork()").error == "PermissionError"
    swallowing = "import os\ndef f():\n while True:\n  try: os.fork()\n  except OSError: pass"
    assert one(swallowing).error == "SIGKILL"
    assert _children() <= before


def test_a_loop_without_end_ends() -> None:
    assert one("def f():\n while True: pass").error == "SIGKILL"
    assert one("import os\ndef f():\n os.close(1)\n while True: pass").error == "SIGKILL"


def test_nothing_sleeps_and_what_waits_for_itself_says_nothing() -> None:
    """So what takes long takes processor time, and a busy machine is not the code's fault."""
    assert one("import time\ndef f(): time.sleep(1000)").error == "PermissionError"
    deadlock = "import _thread\ndef f():\n k = _thread.allocate_lock()\n k.acquire()\n k.acquire()"
    with pytest.raises(SlowError):
        one(deadlock, limits=Limits(wall=1.0))


def test_memory_is_bounded() -> None:
    assert one("def f(): return len('a' * 10**9)").error == "MemoryError"
    assert one("def f(): return len([0] * 10**9)").error == "MemoryError"


def test_output_is_bounded() -> None:
    assert one("import os\ndef f():\n while True: os.write(1, b'x' * 65536)").error == (
        "too much output"
    )
    assert one("def f(): return 'x' * 10**6").error == "too much output"
    assert one("def f():\n for _ in range(1000): print('x')\n return 1") == Returned(1)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("def f(): return f()", "RecursionError"),
        ("def f(): return float('nan')", "ValueError"),
        ("def f(): return {1, 2}", "TypeError"),
        ("def g(): return 1", "KeyError"),
        ("def f(: return 1", "SyntaxError"),
        ("def f(): raise SystemExit", "SystemExit"),
        ("import os\ndef f(): os._exit(0)", "no answer"),
        ("import os\ndef f(): os.abort()", None),
        ("import os\ndef f():\n os.write(1, b'[[{}]]')\n os._exit(0)", "no answer"),
        ("import os\ndef f():\n os.write(1, b'garbage')\n return 1", "no answer"),
    ],
)
def test_what_comes_to_nothing(code: str, error: str | None) -> None:
    found = one(code)
    assert found.value is None
    assert found.error == error if error else found.error


def test_it_knows_nothing_of_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    names = one("import os\ndef f(): return sorted(os.environ)").value
    assert set(names) <= {"LC_CTYPE"}
    assert one("import sys\ndef f(): return sys.flags.isolated").value == 1
    assert one("import sys\ndef f(): return any('site-packages' in p for p in sys.path)") == (
        Returned(False)
    )


def _children() -> int:
    return len(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())
