"""The client of NCCL's RAS socket, against a server that does what its documentation says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest
from chaos.gpu.ras import report

Serve = Callable[[socket.socket], None]


@pytest.fixture
def listening(request: pytest.FixtureRequest) -> Callable[[Serve], tuple[str, int]]:
    def start(serve: Serve) -> tuple[str, int]:
        server = socket.create_server(("127.0.0.1", 0))
        request.addfinalizer(server.close)

        def once() -> None:
            connection, _ = server.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=once, daemon=True)
        thread.start()
        request.addfinalizer(lambda: thread.join(5))
        return "127.0.0.1", int(server.getsockname()[1])

    return start


def test_the_report_is_all_that_comes_until_the_server_closes(
    listening: Callable[[Serve], tuple[str, int]],
) -> None:
    asked = []

    def serve(connection: socket.socket) -> None:
        asked.append(connection.recv(100))
        connection.sendall(b"first part, ")
        connection.sendall(b"second part\n")

    assert report(listening(serve)) == "first part, second part\n"
    assert asked == [b"verbose status\n"]


def test_a_server_that_stalls_costs_the_timeout_and_what_came_is_kept(
    listening: Callable[[Serve], tuple[str, int]],
) -> None:
    done = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"half of it")
        done.wait(5)

    assert report(listening(serve), timeout=0.2) == "half of it"
    done.set()


def test_nobody_there_is_an_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="refused"):
            report(("127.0.0.1", int(probe.getsockname()[1])))
