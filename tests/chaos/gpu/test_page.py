"""What rank 0 serves: a page that moves with its steps, and answers that wait for the next."""

from __future__ import annotations

import threading

import httpx
import pytest
from chaos.gpu.page import MODEL, Steps, metrics, serve


def test_the_page_moves_with_the_steps() -> None:
    before, after = metrics(100), metrics(101)
    moved = set(after.splitlines()) - set(before.splitlines())
    assert {line.partition("{")[0] for line in moved} == {
        "vllm:kv_cache_usage_perc",
        "vllm:generation_tokens_total",
    }


@pytest.mark.integration
def test_an_answer_waits_for_the_next_step_and_health_does_not() -> None:
    steps = Steps()
    server = serve(0, steps)
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        with httpx.Client(base_url=url, trust_env=False, timeout=10) as client:
            assert client.get("/health").status_code == 200
            assert client.get("/v1/models").json()["data"][0]["id"] == MODEL
            assert client.get("/nothing").status_code == 404
            with pytest.raises(httpx.ReadTimeout):
                client.post("/v1/completions", json={"model": MODEL}, timeout=0.2)
            beats = threading.Timer(0.1, steps.did, (1,))
            beats.start()
            answer = client.post("/v1/completions", json={"model": MODEL}).json()
            beats.join()
            assert answer["usage"]["completion_tokens"] == 1
    finally:
        server.shutdown()
        server.server_close()
