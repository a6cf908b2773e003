from __future__ import annotations

import http.client
from collections.abc import Iterator
from threading import Thread

import pytest

from pinprof.errors import CollectError
from pinprof.report.page.serve import PageServer

PAGE = b"<!doctype html><title>page</title>"


@pytest.fixture
def server() -> Iterator[PageServer]:
    running = PageServer(PAGE)
    thread = Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def ask(server: PageServer, path: str, method: str = "GET", host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
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
