"""Faults without an engine: what they do to pages, links and receivers, and taking it back."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.support.server import serve

from enginechaos.actions import Action, EndsWithRun
from enginechaos.errors import TargetError
from enginechaos.faults import (
    EmptyPage,
    Evidence,
    Fault,
    HungDriver,
    KilledRank,
    MetricsProxy,
    RankLink,
    RankRelay,
    ReceiverDown,
    RemovedMetrics,
    RenamedMetrics,
    SlowLink,
    Together,
)
from enginechaos.faults import gpu as driver
from enginechaos.faults.metrics import removed, renamed
from enginechaos.faults.network import narrow, netem
from enginechaos.processes import Process
from enginechaos.receivers import Receivers, Trouble
from enginechaos.target import Target

PAGE = """\
# HELP vllm:kv_cache_usage_perc Share of it.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.5
# TYPE vllm:wait_seconds histogram
vllm:wait_seconds_bucket{le="1"} 3
vllm:wait_seconds_sum 1.5
vllm:wait_seconds_count 3
vllm:wait_seconds_of_others 7
"""

NOWHERE = Target(
    name="a target",
    deployment="chat",
    tier="staging",
    url="http://127.0.0.1:9",
    metrics_url="http://127.0.0.1:9/metrics",
    model="m",
    table=lambda: [Process(1, 1, 0, "VLLM::Worker_TP0"), Process(2, 1, 0, "VLLM::Worker_TP1")],
)


def test_a_family_is_renamed_with_its_suffixes_and_comments_and_no_other_is() -> None:
    page = renamed(PAGE, {"vllm:wait_seconds": "vllm:queued", "vllm:kv_cache_usage_perc": "kv"})
    assert page.splitlines() == [
        "# HELP kv Share of it.",
        "# TYPE kv gauge",
        'kv{engine="0"} 0.5',
        "# TYPE vllm:queued histogram",
        'vllm:queued_bucket{le="1"} 3',
        "vllm:queued_sum 1.5",
        "vllm:queued_count 3",
        "vllm:wait_seconds_of_others 7",
    ]


def test_a_removed_family_leaves_nothing_behind() -> None:
    assert removed(PAGE, ["vllm:wait_seconds", "vllm:kv_cache_usage_perc"]).splitlines() == [
        "vllm:wait_seconds_of_others 7"
    ]
    assert removed(PAGE, ["vllm:wait"]) == PAGE


@pytest.fixture
def proxy() -> Iterator[MetricsProxy]:
    page = Route("/metrics", lambda _: PlainTextResponse(PAGE))
    with serve(Starlette(routes=[page])) as url:
        engine = replace(NOWHERE, metrics_url=f"{url}/metrics")
        with MetricsProxy(engine) as made:
            yield made


def test_a_proxy_passes_pages_on_until_a_fault_and_again_after_it(proxy: MetricsProxy) -> None:
    target = proxy.target
    assert target.metrics_url == proxy.url
    faults = [
        RenamedMetrics(proxy, {"vllm:kv_cache_usage_perc": "kv"}),
        RemovedMetrics(proxy, ["vllm:wait_seconds"]),
        EmptyPage(proxy),
    ]
    for fault in faults:
        assert not fault.verify(target).found, "nothing was done yet"
        fault.inject(target)
        assert fault.verify(target).found
        fault.retract(target)
        fault.retract(target)
        assert httpx.get(proxy.url, trust_env=False).text == PAGE


def test_a_rename_to_what_is_not_there_is_no_evidence(proxy: MetricsProxy) -> None:
    fault = RenamedMetrics(proxy, {"vllm:no_such_metric": "vllm:other"})
    fault.inject(NOWHERE)
    assert fault.verify(NOWHERE) == Evidence(False, "the page has neither")


def test_an_engine_that_is_gone_is_told_as_an_error_of_the_page() -> None:
    with MetricsProxy(NOWHERE) as beyond:
        assert httpx.get(beyond.url, trust_env=False).status_code == 502


def test_a_receiver_in_trouble_takes_nothing_until_it_is_mended() -> None:
    receivers = Receivers()
    receivers.start()
    try:
        fault = ReceiverDown(receivers, "webhook", Trouble(status=503))
        assert not fault.verify(NOWHERE).found
        fault.inject(NOWHERE)
        assert fault.verify(NOWHERE) == Evidence(True, "webhook answers 503")
        fault.mend()
        fault.retract(NOWHERE)
        assert not fault.verify(NOWHERE).found
    finally:
        receivers.stop()


class _Noted(Fault):
    def __init__(self, what: str, log: list[str], found: bool = True):
        self.what, self.log, self.found = what, log, found

    def undo(self, target: Target) -> Sequence[Action]:
        return [EndsWithRun(self.what)]

    def inject(self, target: Target) -> None:
        self.log.append(f"inject {self.what}")

    def verify(self, target: Target) -> Evidence:
        return Evidence(self.found, self.what)

    def retract(self, target: Target) -> None:
        self.log.append(f"retract {self.what}")


def test_faults_together_are_verified_each_and_taken_back_in_reverse() -> None:
    log: list[str] = []
    both = Together(_Noted("a", log), _Noted("b", log))
    assert both.undo(NOWHERE) == [EndsWithRun("a"), EndsWithRun("b")]
    both.inject(NOWHERE)
    assert both.verify(NOWHERE) == Evidence(True, "a; b")
    both.retract(NOWHERE)
    assert log == ["inject a", "inject b", "retract b", "retract a"]
    assert not Together(_Noted("a", log), _Noted("b", log, found=False)).verify(NOWHERE).found


def test_no_rank_is_killed_where_nothing_could_launch_its_engine_anew() -> None:
    with pytest.raises(TargetError, match="can't be launched anew from here, so it is not killed"):
        KilledRank(rank=1).undo(NOWHERE)


def test_a_rank_that_is_not_there_is_no_rank_to_kill() -> None:
    with pytest.raises(TargetError, match="has 2 ranks, and none is rank 7"):
        KilledRank(rank=7).undo(replace(NOWHERE, relauncher=lambda **_: None))


def test_an_engine_is_launched_anew_once_and_only_if_it_was_killed() -> None:
    launched: list[bool] = []
    target = replace(NOWHERE, relauncher=lambda **_: launched.append(True))
    fault = KilledRank(rank=1)
    fault.undo(target)
    fault.retract(target)
    assert not launched
    with pytest.raises(TargetError, match="is gone"):
        fault.inject(target)  # no process of pid 2 began at that time
    fault.retract(target)
    fault.retract(target)
    assert launched == [True]


def test_only_the_driver_of_simulated_gpus_can_be_made_to_hang() -> None:
    with pytest.raises(TargetError, match="has real GPUs"):
        HungDriver().undo(NOWHERE)


def test_a_driver_that_hangs_is_taken_back_and_what_else_the_file_says_stays(
    tmp_path: Path,
) -> None:
    file = tmp_path / "gpus.json"
    file.write_text(json.dumps({"gpus": [{"uuid": "GPU-1"}]}))
    HungDriver().inject(replace(NOWHERE, gpu_file=file))
    assert json.loads(file.read_text())["hang"] is True
    for _ in range(2):
        assert driver.main([str(file)]) == 0
        assert json.loads(file.read_text()) == {"gpus": [{"uuid": "GPU-1"}]}
    assert driver.main([str(tmp_path / "gone.json")]) == 0


def test_the_words_for_tc_say_how_long_a_packet_waits() -> None:
    assert netem(0.02)[:3] == ["netem", "delay", "20ms"]
    assert narrow(0.02)[:5] == ["tbf", "rate", "26800bit", "burst", "100"]
    assert narrow(1e6)[2] == "8bit"


def test_a_link_is_taken_down_by_its_own_names_and_ranks_are_launched_in_it() -> None:
    link = RankLink("mine")
    assert [a.as_json()["argv"] for a in link.undo()] == [
        ["ip", "netns", "del", "mine-0"],
        ["ip", "netns", "del", "mine-1"],
    ]
    assert link.ranks()["launch"] == [["ip", "netns", "exec", f"mine-{rank}"] for rank in (0, 1)]


def test_the_undo_of_a_link_that_is_gone_has_nothing_to_do() -> None:
    (action,) = SlowLink(RankLink("no-such-link"), delay=1).undo(NOWHERE)
    action.do()
    action.do()


def test_a_relay_passes_on_keeps_back_and_catches_up() -> None:
    with contextlib.ExitStack() as held:
        relay = held.enter_context(RankRelay())
        listen, _, port = relay.ranks()["listen"].rpartition(":")
        root = held.enter_context(socket.create_server((listen, int(port))))
        through, _, port = relay.ranks()["through"].rpartition(":")
        rank1 = held.enter_context(socket.create_connection((through, int(port))))
        rank0 = held.enter_context(root.accept()[0])
        rank1.sendall(b"a")
        assert rank0.recv(1) == b"a"
        relay.hold()
        rank1.sendall(b"b")
        rank0.settimeout(0.2)
        with pytest.raises(TimeoutError):
            rank0.recv(1)
        assert relay.waiting == 1
        relay.release()
        rank0.settimeout(10)
        assert rank0.recv(1) == b"b"
        assert relay.waiting == 0
