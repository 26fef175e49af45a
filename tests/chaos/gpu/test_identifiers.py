"""Logs become test data: no names of machines, and the same stands for the same."""

from __future__ import annotations

import pytest
from chaos.gpu.identifiers import replace_identifiers

HOSTS = {"node-17.example.net": "gpu-host", "node-17": "gpu-host"}
FOLDERS = {"/home/me/enginewatch": "/srv/enginewatch", "/home/me": "/home/user"}


def clean(text: str) -> str:
    return replace_identifiers(text, hosts=HOSTS, folders=FOLDERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node-17:51:70 [0] NCCL INFO", "gpu-host:51:70 [0] NCCL INFO"),
        ("node-17.example.net says", "gpu-host says"),
        ("a node-170 and a big-node-17", "a node-170 and a big-node-17"),
        ("/home/me/enginewatch/chaos/x.py", "/srv/enginewatch/chaos/x.py"),
        ("/home/me/x", "/home/user/x"),
        (
            "from 10.1.2.3<4711> to 10.1.2.4, 10.1.2.3",
            "from 192.0.2.1<4711> to 192.0.2.2, 192.0.2.1",
        ),
        ("peer [127.0.0.1]:2276", "peer [127.0.0.1]:2276"),
        ("GPU-8f14e45f-ceea-467f-9a36-dedd4bea2543", "GPU-00000000-0000-0000-0000-000000000001"),
        ("comm 0x55fb12345678 rank 0", "comm 0x7f0000000001 rank 0"),
        (
            'File "/opt/env/lib/python3.12/site-packages/torch/x.py"',
            'File "/usr/lib/python3/site-packages/torch/x.py"',
        ),
        ("Timed out waiting 30000ms for recv", "Timed out waiting 30000ms for recv"),
    ],
)
def test_what_names_a_machine_is_replaced(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_a_text_that_was_cleaned_stays_as_it_is() -> None:
    once = clean("node-17 10.1.2.3 0x55fb12345678 /opt/a/site-packages/b")
    assert clean(once) == once
