from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import time
from collections.abc import Iterator
from threading import Thread

import pytest

from pinprof.base.errors import CollectError
from pinprof.report.page import serve
from pinprof.report.page.serve import PageServer

PAGE = b"<!doctype html><title>page</title>"
PATIENCE_S = 60


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PageServer]:
    # A test that stands still is not hung up on.
    monkeypatch.setattr(serve, "ASK_WITHIN_S", 2.0 * PATIENCE_S)
    running = PageServer(PAGE)
    thread = Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def ask(server: PageServer, path: str, method: str = "GET", host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE_S)
    connection.request(method, path, headers={"Host": host} if host else {})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


def test_the_page_is_at_its_url_and_nowhere_else(server: PageServer) -> None:
    assert ask(server, server.path) == (200, PAGE)
    assert ask(server, server.path, "HEAD") == (200, b"")
    for path in ("/", "/etc/passwd", server.path + "../../etc/passwd", server.path[:-2], "//", "/%2e%2e/"):
        status, body = ask(server, path)
        assert status == 404
        assert PAGE not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(server: PageServer, method: str) -> None:
    assert ask(server, server.path, method)[0] == 501


def test_a_foreign_host_name_is_refused(server: PageServer) -> None:
    assert ask(server, server.path, host=f"attacker.example:{server.server_port}")[0] == 403
    assert ask(server, server.path, host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:1", "127.0.0.1:80", "localhost:", ":{port}"])
def test_a_wrong_port_in_the_host_name_is_refused(server: PageServer, host: str) -> None:
    assert ask(server, server.path, host=host.format(port=server.server_port))[0] == 403


@pytest.mark.parametrize("host", ["localhost:9", "machine.example:8000", "abc.tunnels.example"])
def test_who_comes_by_a_forwarded_port_is_told_which_port_to_forward(server: PageServer, host: str) -> None:
    status, body = ask(server, server.path, host=host)
    port = server.server_port
    assert status == 403
    assert f"ssh -L {port}:127.0.0.1:{port}".encode() in body
    assert server.path.strip("/").encode() not in body
    assert host.encode() not in body
    assert ask(server, server.path, "HEAD", host=host) == (403, b"")


def connected(server: PageServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE_S)


def hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_are_limited_and_places_come_back(server: PageServer) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(serve.MOST_CONNECTIONS):
            stack.enter_context(connected(server)).sendall(b"GET /")
        one_more = stack.enter_context(connected(server))
        assert hung_up(one_more)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            if ask(server, server.path) == (200, PAGE):
                return
        time.sleep(0.02)
    pytest.fail("no place came back")


def test_who_does_not_ask_in_time_is_hung_up_on(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "ASK_WITHIN_S", 0.0)
    with connected(server) as slow:
        slow.sendall(b"GET /")
        assert hung_up(slow)


def test_a_client_that_resets_the_connection_leaves_no_traceback(
    server: PageServer, capfd: pytest.CaptureFixture[str]
) -> None:
    server.page = bytes(1 << 24)
    for request in (b"GET " + server.path.encode() + b" HTTP/1.0\r\nHost: localhost\r\n", b"GET /"):
        connection = connected(server)
        host = f"Host: localhost:{server.server_port}\r\n\r\n".encode()
        connection.sendall(request.replace(b"Host: localhost\r\n", host))
        # Closing with unread data and no lingering sends a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    server.page = PAGE
    assert ask(server, server.path)[0] == 200
    server.shutdown()
    server.server_close()
    assert capfd.readouterr().err == ""


def test_it_listens_on_loopback_with_a_new_token_each_time(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    other = PageServer(PAGE)
    other.server_close()
    assert other.path != server.path
    assert len(server.path) > 24


def test_a_port_in_use_is_named(server: PageServer) -> None:
    with pytest.raises(CollectError, match=str(server.server_port)):
        PageServer(PAGE, server.server_port)


def test_an_impossible_port_is_named() -> None:
    with pytest.raises(CollectError, match="70000"):
        PageServer(PAGE, 70000)
