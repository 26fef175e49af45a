from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.evidence.redact import redact


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ('curl -H "Authorization: Basic dXNlcjpwYXNz" http://x', "dXNlcjpwYXNz"),
        ("vllm serve m --api-key topsecret9 --port 1", "topsecret9"),
        ("--api-key=topsecret9", "topsecret9"),
        ("args: {'api_key': ['topsecret9'], 'port': 8000}", "topsecret9"),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuv", "hf_abcdefghijklmnopqrstuv"),
        ("key sk-proj-abcdefghijklmnop used", "sk-proj-abcdefghijklmnop"),
        ("NGC_API_KEY=nvapi-abcdefghijklmnop", "nvapi-abcdefghijklmnop"),
        ("postgres://user:pw12345@db/x", "pw12345"),
        ("AWS_SECRET_ACCESS_KEY=abcd1234efgh", "abcd1234efgh"),
        ("password: 'hunter22'", "hunter22"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.sflKxwRJSM", "eyJzdWIiOiIx"),
    ],
)
def test_secrets_are_struck_out(text: str, secret: str) -> None:
    struck = redact(text)
    assert secret not in struck
    assert "[redacted]" in struck


@pytest.mark.parametrize(
    "text",
    [
        "#new-token: 8192, #cached-token: 0, token usage: 0.42",
        "gen throughput (token/s): 905.13, max_tokens=4096, bos_token_id=1",
        "<|reserved_token_9917|> max_num_batched_tokens=2048",
        "api_key=None, ssl_keyfile=None, tokenizer='m'",
        "Unexpected token in expression; the key is missing",
        "GPU 0 has a total capacity of 79.10 GiB of which 610.50 MiB is free",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_striking_out_is_done_once_and_for_all(text: str) -> None:
    struck = redact(text)
    assert redact(struck) == struck
