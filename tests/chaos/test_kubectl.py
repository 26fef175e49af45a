"""Acting through kubectl: a stand-in for the executable that speaks to a stub API over HTTP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.chaos.world import World, rank
from tests.support.server import serve

from enginechaos import staging
from enginechaos.actions import Signal, action_of
from enginechaos.actors import Kubectl
from enginechaos.errors import TargetError
from enginechaos.external import open_target
from enginechaos.faults import StoppedRank
from enginechaos.processes import Process
from enginechaos.undo import UndoLog, file_name, settle_all

pytestmark = pytest.mark.integration

KUBECTL = """#!{python}
import json, sys, urllib.error, urllib.request
arguments = sys.argv[1:]
body = json.dumps(arguments).encode()
request = urllib.request.Request("{url}/exec", body, {{"Content-Type": "application/json"}})
try:
    with urllib.request.urlopen(request, timeout=20) as answer:
        done = json.load(answer)
except urllib.error.HTTPError as refused:
    sys.exit(refused.read().decode())
except OSError as failure:
    sys.exit(f"Unable to connect to the server: {{failure}}")
sys.stdout.write(done["out"])
sys.stderr.write(done["err"])
sys.exit(done["code"])
"""


class Api:
    """An API server with one pod, which sees `visible` processes of this machine."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.visible: list[Process] = []
        self.forbidden = False

    def app(self) -> Starlette:
        async def run(request: Request) -> Response:
            arguments: list[str] = await request.json()
            self.calls.append(arguments)
            if self.forbidden:
                said = 'Error from server (Forbidden): pods "chat-0" is forbidden'
                return Response(said, 403)
            return JSONResponse(self.answer(arguments))

        return Starlette(routes=[Route("/exec", run, methods=["POST"])])

    def answer(self, arguments: list[str]) -> dict[str, Any]:
        head, argv = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
        if head[:4] != ["--namespace", "llm", "exec", "chat-0"]:
            return {"code": 1, "out": "", "err": f'Error (NotFound): pods "{head[3]}" not found'}
        script = argv[-1].replace("/proc/[0-9]*", " ".join(f"/proc/{p.pid}" for p in self.visible))
        done = subprocess.run([*argv[:-1], script], capture_output=True, text=True, check=False)
        return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def program(api: Api, tmp_path: Path) -> Iterator[Path]:
    with serve(api.app()) as url:
        path = tmp_path / "kubectl"
        path.write_text(KUBECTL.format(python=sys.executable, url=url))
        path.chmod(0o755)
        yield path


@pytest.fixture
def pod(program: Path) -> Kubectl:
    return Kubectl("chat-0", "llm", program=str(program))


def test_processes_of_the_pod_are_seen_and_signalled_and_no_others(api: Api, pod: Kubectl) -> None:
    with rank(0) as mine, rank(1) as other:
        api.visible = [mine]
        assert list(pod.processes()) == [mine]
        assert pod.signal(mine, "STOP")
        assert pod.state(mine) == "T"
        assert pod.state(other) in "RSD"
        assert pod.signal(mine, "CONT")
        again = Process(mine.pid, mine.started + 1)
        assert not pod.signal(again, "KILL")
        assert pod.state(mine) in "RSD"


def test_a_stopped_rank_in_a_pod_is_undone_from_disk_by_another_process(
    api: Api, program: Path, tmp_path: Path, world: World
) -> None:
    act = {"kind": "kubectl", "pod": "chat-0", "namespace": "llm", "program": str(program)}
    api.visible = world.engine.ranks
    target = open_target(staging.read(world.write(tmp_path / "staging.yml", act=act)))
    fault = StoppedRank(1)
    UndoLog(tmp_path / file_name()).promise(fault.name, fault.undo(target))
    fault.inject(target)
    assert fault.verify(target).found
    assert list(world.engine.stopped()) == [False, True]
    (said,) = settle_all(tmp_path)
    assert said.startswith("stopped rank: sent CONT to stand-in-rank_1")
    assert not any(world.engine.stopped())


def test_the_actor_is_made_anew_from_what_the_undo_file_says(pod: Kubectl) -> None:
    action = Signal(Process(1, 2, 0, "x"), "CONT", pod)
    assert action_of({"kind": "signal", **action.as_json()}) == action


def test_what_the_cluster_refuses_is_said_in_its_words(api: Api, pod: Kubectl) -> None:
    api.forbidden = True
    with pytest.raises(TargetError, match='pods "chat-0" is forbidden'):
        pod.processes()
    api.forbidden = False
    with pytest.raises(TargetError, match="not found"):
        Kubectl("chat-9", "llm", program=pod.program).processes()


def test_a_cluster_or_program_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "kubectl"
    path.write_text(KUBECTL.format(python=sys.executable, url="http://127.0.0.1:1"))
    path.chmod(0o755)
    with pytest.raises(TargetError, match="Unable to connect to the server"):
        Kubectl("chat-0", program=str(path)).processes()
    with pytest.raises(TargetError, match="can't run /nowhere/kubectl"):
        Kubectl("chat-0", program="/nowhere/kubectl").processes()


@pytest.mark.parametrize("name", ["--kubeconfig=x", "a b", "", "a;b"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(TargetError, match="is not a name in Kubernetes"):
        Kubectl(name)
