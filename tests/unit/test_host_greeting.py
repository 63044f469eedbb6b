"""What a server on this host says first."""

from __future__ import annotations

import socket
import threading

import pytest

from hosttune.facts.network.reached import has_banner
from hosttune.host.reading.greeting import ask
from hosttune.host.reading.live import LiveReader


@pytest.fixture
def server():
    """Says these bytes to one client, each by itself, and closes unless it has to hang."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        held: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def start(*parts: bytes, hangs: bool = False) -> int:
            def serve() -> None:
                client, _ = listener.accept()
                for part in parts:
                    client.sendall(part)
                held.append(client) if hangs else client.close()

            threads.append(threading.Thread(target=serve, daemon=True))
            threads[-1].start()
            return port

        yield start
        for thread in threads:  # on a busy machine it may still be about to hold its client
            thread.join(10)
        for client in held:
            client.close()


def test_first_line_is_what_is_asked_for(server):
    assert (
        ask("127.0.0.1", server(b"SSH-2.0-", b"OpenSSH_9.2\r\nmore", hangs=True), 5.0).text
        == "SSH-2.0-OpenSSH_9.2"
    )


def test_server_that_is_busy_with_the_logins_of_a_user_answers(server):
    assert has_banner(LiveReader(), "127.0.0.1", server(b"Exceeded MaxStartups\r\n"))


@pytest.mark.parametrize("parts", [(), (b"x" * 300,)])
def test_server_that_closes_or_never_ends_its_line_has_no_banner(server, parts):
    assert not has_banner(LiveReader(), "127.0.0.1", server(*parts))


def test_server_that_says_nothing_is_waited_for_only_so_long(server):
    assert ask("127.0.0.1", server(hangs=True), 0.2).status == 1


def test_port_where_nothing_listens(server):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert ask("127.0.0.1", port, 1.0).status == 1
