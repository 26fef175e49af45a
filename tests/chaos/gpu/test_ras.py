"""The client of NCCL's RAS socket, against a server that does what its documentation says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from chaos.gpu.ras import JSON, report

Serve = Callable[[socket.socket], None]


@pytest.fixture
def listening(request: pytest.FixtureRequest) -> Callable[[Serve], tuple[str, int]]:
    def start(serve: Serve) -> tuple[str, int]:
        server = socket.create_server(("127.0.0.1", 0))
        request.addfinalizer(server.close)

        def forever() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        serve(connection)

        thread = threading.Thread(target=forever, daemon=True)
        thread.start()
        return "127.0.0.1", int(server.getsockname()[1])

    return start


def greeted(connection: socket.socket) -> bytes:
    """What is asked after the greeting."""
    assert connection.recv(100) == b"CLIENT PROTOCOL 2\n"
    connection.sendall(b"SERVER PROTOCOL 2\n")
    return connection.recv(100)


def test_the_report_is_all_that_comes_until_the_server_closes(
    listening: Callable[[Serve], tuple[str, int]],
) -> None:
    asked = []

    def serve(connection: socket.socket) -> None:
        asked.append(greeted(connection))
        connection.sendall(b"first part, ")
        connection.sendall(b"second part\n")

    assert report(listening(serve)) == "first part, second part\n"
    assert report(listening(serve), settings=JSON) == "first part, second part\n"
    assert asked == [b"VERBOSE STATUS\n", b"SET FORMAT json\nVERBOSE STATUS\n"]


def test_a_process_that_is_stopped_says_nothing_and_another_is_asked(
    listening: Callable[[Serve], tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.gpu.ras._GREETING", 0.1)
    connections = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        if len(connections) < 3:
            connection.recv(100)
            connection.recv(100)  # until the client gives up
            return
        greeted(connection)
        connection.sendall(b"RUNNING\n")

    assert report(listening(serve)) == "RUNNING\n"
    assert len(connections) == 3


def test_a_server_that_stalls_costs_the_timeout_and_what_came_is_kept(
    listening: Callable[[Serve], tuple[str, int]],
) -> None:
    done = threading.Event()

    def serve(connection: socket.socket) -> None:
        greeted(connection)
        connection.sendall(b"half of it")
        done.wait(5)

    assert report(listening(serve), timeout=0.3) == "half of it"
    done.set()


def test_nobody_there_is_an_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="refused"):
            report(("127.0.0.1", int(probe.getsockname()[1])))
