"""What rank 0 serves in the place of an engine: vLLM's names of metrics, and one-token answers.

/health answers 200 whatever happens, as vLLM's does while a worker is stopped; an answer of one
token needs one more step, so it hangs when the ranks do.
"""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "stalled"
RUNNING = 4
"""Requests that are said to run, each getting a token a step."""


class Steps:
    """How many steps were done; threads can wait for the next."""

    def __init__(self) -> None:
        self._count = 0
        self._more = threading.Condition()

    @property
    def count(self) -> int:
        return self._count

    def did(self, count: int) -> None:
        with self._more:
            self._count = count
            self._more.notify_all()

    def wait_for_next(self) -> None:
        with self._more:
            before = self._count
            self._more.wait_for(lambda: self._count > before)


def metrics(steps: int) -> str:
    """The page after so many steps, in Prometheus' text format."""
    labels = f'{{engine="0",model_name="{MODEL}"}}'
    of_success = f'{{engine="0",finished_reason="length",model_name="{MODEL}"}}'
    rows = (
        ("num_requests_running", "gauge", labels, RUNNING),
        ("num_requests_waiting", "gauge", labels, 0),
        ("kv_cache_usage_perc", "gauge", labels, 0.2 + 0.001 * (steps % 100)),
        ("generation_tokens_total", "counter", labels, RUNNING * steps),
        ("prompt_tokens_total", "counter", labels, 16 * (steps // 64)),
        ("request_success_total", "counter", of_success, steps // 64),
    )
    lines = []
    for name, kind, series, value in rows:
        lines += [f"# TYPE vllm:{name} {kind}", f"vllm:{name}{series} {value}"]
    return "\n".join(lines) + "\n"


def serve(port: int, steps: Steps) -> ThreadingHTTPServer:
    """In threads of this process, until it ends. Raises OSError where the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer("text/plain; version=0.0.4", metrics(steps.count))
            elif self.path == "/v1/models":
                listed = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
                self._answer("application/json", json.dumps(listed))
            elif self.path == "/health":
                self._answer("text/plain", "")
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path != "/v1/completions":
                self.send_error(404)
                return
            steps.wait_for_next()
            answer = {
                "id": "cmpl-0",
                "object": "text_completion",
                "model": MODEL,
                "choices": [{"index": 0, "text": "!", "finish_reason": "length"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
            self._answer("application/json", json.dumps(answer))

        def _answer(self, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            # A probe that hung has gone away when the ranks go on.
            with contextlib.suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the log for what the ranks say."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="page", daemon=True).start()
    return server
