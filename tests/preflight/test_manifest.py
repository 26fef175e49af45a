"""Containers out of compose files and Kubernetes manifests."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.preflight.readers.kubernetes import quantity
from enginewatch.preflight.readers.launch import Launch, workload_launches
from enginewatch.preflight.readers.manifest import read_manifest, unread_documents
from enginewatch.preflight.readers.shell import ShellError
from enginewatch.preflight.readers.yamldata import YamlDataError, read_yaml

DEPLOYMENT = """
apiVersion: v1
kind: Service
metadata: {name: chat}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  template:
    spec:
      terminationGracePeriodSeconds: 120
      volumes:
        - {name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args: ["--model", "m", "--tensor-parallel-size", "$(TP)"]
          env:
            - {name: TP, value: "4"}
            - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}
          resources: {limits: {nvidia.com/gpu: "4"}}
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
          livenessProbe:
            httpGet: {path: /health, port: 8000}
            periodSeconds: 5
            failureThreshold: 6
            initialDelaySeconds: 60
          startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 30}
"""

SCRIPTED = """
kind: Pod
metadata: {name: a}
spec:
  hostIPC: true
  containers:
    - name: engine
      image: nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3
      command: ["/bin/sh", "-c"]
      args:
        - |
          export VLLM_X=1
          exec trtllm-serve m --tp_size 8
      resources: {requests: {nvidia.com/gpu: 8}}
"""

COMPOSE = """
x-base: &base
  image: vllm/vllm-openai:${TAG:-latest}
  shm_size: 8gb
services:
  chat:
    <<: *base
    command: --model m --max-num-seqs 64
    environment: [VLLM_LOGGING_LEVEL=DEBUG, HF_TOKEN]
    deploy:
      resources:
        reservations:
          devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]
    healthcheck: {test: [CMD, curl, -f, "http://localhost:8000/health"], interval: 1m, retries: 5}
  other:
    image: redis
    ipc: host
"""


RESERVED = "{deploy: {resources: {reservations: {devices: [%s]}}}}"


def launch(text: str) -> Launch:
    found = [
        each
        for one in read_manifest(read_yaml(text, "m.yml"), "m.yml")
        for each in workload_launches(one, "m.yml")
    ]
    assert len(found) == 1
    return found[0]


def test_kubernetes() -> None:
    [workload] = read_manifest(read_yaml(DEPLOYMENT, "m.yml"), "m.yml")
    assert (workload.name, workload.kind) == ("chat/vllm", "Deployment")
    assert (workload.gpus, workload.gpu_resource) == (4, "nvidia.com/gpu")
    assert (workload.shm_bytes, workload.grace_s) == (16 << 30, 120)
    startup, liveness = workload.probes
    assert (startup.kind, startup.patience_s) == ("startup", 300)
    assert (liveness.asks, liveness.patience_s, liveness.timeout_s) == ("/health", 90, 1)
    assert workload.notes == ("the value of HF_TOKEN",)


def test_arguments_go_to_the_images_entry_point() -> None:
    found = launch(DEPLOYMENT)
    assert (found.runtime, found.number("tensor_parallel")) == ("vllm", 4)
    assert found.where.startswith("m.yml:")
    assert found.env["HF_TOKEN"].value is None


def test_a_shell_inside_a_pod() -> None:
    found = launch(SCRIPTED)
    assert (found.runtime, found.number("tensor_parallel")) == ("trtllm", 8)
    assert found.env["VLLM_X"].value == "1"
    assert found.container is not None
    assert found.container.shares_ipc


def test_compose() -> None:
    chat, other = read_manifest(read_yaml(COMPOSE, "c.yml"), "c.yml")
    assert (chat.image, chat.shm_bytes, chat.gpus) == ("vllm/vllm-openai:latest", 8 << 30, 2)
    assert [each.patience_s for each in chat.probes] == [300]
    assert (other.shares_ipc, other.probes) == (True, ())
    assert launch(COMPOSE).number("max_num_seqs") == 64


def test_leader_and_workers_are_two() -> None:
    template = "{spec: {containers: [{name: %s, image: x}]}}"
    text = (
        "kind: LeaderWorkerSet\nmetadata: {name: big}\nspec:\n  leaderWorkerTemplate:\n"
        f"    leaderTemplate: {template % 'l'}\n    workerTemplate: {template % 'w'}\n"
    )
    assert [each.name for each in read_manifest(read_yaml(text, "m.yml"), "m.yml")] == [
        "big/l",
        "big/w",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "spec.template.spec",
        "spec.jobTemplate.spec.template.spec",
        "spec.predictor",
        "spec.workers.0.template.spec",
    ],
)
def test_pods_are_found_in_kinds_that_nobody_listed(path: str) -> None:
    document: Any = {
        "initContainers": [{"name": "side", "image": "x", "restartPolicy": "Always"}],
        "containers": [{"name": "engine", "image": "y"}],
    }
    for key in reversed(path.split(".")):
        document = [document] if key == "0" else {key: document}
    text = json.dumps({"kind": "Unheard", "metadata": {"name": "chat"}, **document})
    found = read_manifest(read_yaml(text, "m.yml"), "m.yml")
    assert [each.name for each in found] == ["chat/side", "chat/engine"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: InferenceService\nspec: {predictor: {model: {args: [--x]}}}", "InferenceService"),
        ("kind: Workflow\nspec: {templates: [{container: {command: [vllm]}}]}", "Workflow"),
        ("engine: {resources: {limits: {nvidia.com/gpu: 8}}}", "without a kind"),
        ("kind: Service\nspec: {ports: [{port: 80}]}", ""),
        ("kind: ConfigMap\ndata: {args: 'a text', command: vllm serve m}", ""),
        (DEPLOYMENT, ""),
        (COMPOSE, ""),
    ],
)
def test_what_an_operator_makes_pods_of_is_told(text: str, said: str) -> None:
    found = list(unread_documents(read_yaml(text, "m.yml"), "m.yml"))
    assert [said in each.what for each in found] == ([True] if said else [])


@pytest.mark.parametrize(
    ("value", "text", "known"),
    [
        ("$(PLAIN)", "4", True),
        ("$$(PLAIN)", "$(PLAIN)", True),
        ("$(SECRET)", "$(SECRET)", False),
        ("$(FROM_SECRET)", "$(FROM_SECRET)", False),
        ("$(NOBODY)", "$(NOBODY)", True),
        ("{{ .Values.tp }}", "{{ .Values.tp }}", False),
    ],
)
def test_references(value: str, text: str, known: bool) -> None:
    container = {
        "image": "x",
        "args": [value],
        "env": [
            {"name": "PLAIN", "value": "4"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
            {"name": "FROM_SECRET", "value": "/models/$(SECRET)"},
        ],
    }
    for sources, is_known in (([], known), ([{"configMapRef": {"name": "c"}}], None)):
        pod = {"kind": "Pod", "spec": {"containers": [container | {"envFrom": sources}]}}
        [found] = read_manifest(read_yaml(json.dumps(pod), "m.yml"), "m.yml")
        [word] = found.words
        # A config map may set what nobody else does.
        expected = known and "NOBODY" not in value if is_known is None else is_known
        assert (word.text, word.known) == (text, expected)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("{gpus: all}", -1),
        ("{gpus: [{count: 2}]}", 2),
        ("{gpus: [{count: 2}, {device_ids: ['0', '3', '5']}]}", 5),
        ("{deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}}", -1),
        (
            "{deploy: {resources: {reservations: {devices: [{capabilities: [[gpu]], count: 4}]}}}}",
            4,
        ),
        (
            "{deploy: {resources: {reservations: {devices: [{capabilities: [tpu], count: 4}]}}}}",
            None,
        ),
        ("{gpus: [{count: '${N}'}]}", None),
        ("{}", None),
    ],
)
def test_gpus_of_a_service(service: str, expected: int | None) -> None:
    text = f"services: {{chat: {service}}}" if service != "{}" else "services: {chat: {image: x}}"
    [found] = read_manifest(read_yaml(text, "c.yml"), "c.yml")
    assert found.gpus == expected


@pytest.mark.parametrize(
    "text",
    [
        "kind: !!python/object/apply:os.system [ls]",
        "a: [1, 2",
        "a: !Ref x",
        "\n".join(
            ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
            + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
        ),
    ],
)
def test_hostile_yaml_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(YamlDataError) as raised:
        read_manifest(read_yaml(text, "m.yml"), "m.yml")
    assert raised.value.where.startswith("m.yml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("16Gi", 16 << 30), ("500m", 0), ("1G", 10**9), ("8", 8), ("1.5Ki", 1536), ("x", None)],
)
def test_quantities(text: str, expected: int | None) -> None:
    assert quantity(text) == expected


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 99) | st.sampled_from(["x", "vllm serve m", "$(A"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "spec", "template", "containers", "env", "args", "command", "services",
                 "image", "environment", "resources", "limits", "livenessProbe", "volumes"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(_VALUE, st.sampled_from(["Pod", "Deployment", "LeaderWorkerSet", "List", ""]))
def test_any_document_is_read(value: object, kind: str) -> None:
    document = {**value, "kind": kind} if isinstance(value, dict) and kind else value
    with suppress(ShellError):
        for workload in read_manifest(read_yaml(json.dumps(document), "m.yml"), "m.yml"):
            workload_launches(workload, "m.yml")
