"""`pinprof report --push`: what a server gets, and what is said of servers that refuse, are silent or are not there."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pinprof.base.errors import PinprofError
from pinprof.cli.report import command
from pinprof.read import read
from pinprof.report.export import push
from tests.support import h200

CASE = h200.DATA / "pinned.pinprof.tar.xz"


@contextmanager
def server(status: int = 200, answer: bytes = b"{}", headers: tuple[tuple[str, str], ...] = ()) -> Iterator[Any]:
    """A server on loopback; its `got` has (path, headers, body) of each request."""
    got: list[tuple[str, dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, dict(self.headers), body))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{made.server_port}", got
        finally:
            made.shutdown()


def pushed(url: str, *options: str) -> Result:
    return CliRunner().invoke(command, [str(CASE), "--push", url, *options])


def refused(result: Result) -> str:
    assert isinstance(result.exception, PinprofError), result.output
    assert result.exception.slug == "push"
    return str(result.exception)


def test_the_server_gets_the_profile_with_its_time_labels_and_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(push.AUTHORIZATION, "Bearer secret")
    monkeypatch.setenv(push.TENANT, "team")
    with server() as (url, got):
        done = pushed(f"{url}/behind/")
    assert done.exit_code == 0, done.output
    assert f"to {url}." in done.output
    assert "secret" not in done.output
    ((path, headers, body),) = got
    assert path == "/behind/push.v1.PusherService/Push"
    assert (headers["Authorization"], headers["X-Scope-OrgID"]) == ("Bearer secret", "team")
    (series,) = json.loads(body)["series"]
    labels = {one["name"]: one["value"] for one in series["labels"]}
    assert labels["__name__"] == "pinprof"
    assert labels["service_name"]
    (sample,) = series["samples"]
    profile = gzip.decompress(base64.b64decode(sample["rawProfile"]))
    file = tmp_path / "profile.pb"
    file.write_bytes(profile)
    again, first = read(file), read(CASE)
    assert len(again.events) == len(first.events)
    assert int(again.samples.weight.sum()) == int(first.samples.weight.sum())
    written = tmp_path / "written.pb"
    assert CliRunner().invoke(command, [str(CASE), "--format", "pprof", "-o", str(written)]).exit_code == 0
    assert written.read_bytes() == profile


@pytest.mark.parametrize(
    ("status", "answer", "headers", "said"),
    [
        (401, b"no\x1b[31m\ncredentials", (), "answers 401: no"),
        (500, b"", (), "answers 500: nothing."),
        (302, b"", (("Location", "http://127.0.0.1:1/"),), "answers 302"),
    ],
)
def test_what_a_server_says_is_quoted_and_followed_nowhere(
    status: int, answer: bytes, headers: tuple[tuple[str, str], ...], said: str
) -> None:
    with server(status, answer, headers) as (url, got):
        text = refused(pushed(url))
    assert said in text
    assert "\x1b" not in text
    assert len(got) == 1


def test_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert "does not take the profile" in refused(pushed(f"http://127.0.0.1:{held.getsockname()[1]}"))


@pytest.mark.parametrize("drips", [False, True])
def test_a_server_that_does_not_finish_is_left(drips: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "WITHIN_S", 0.5)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                while not over.wait(0.05):
                    try:
                        connection.sendall(b"H" if drips else b"")
                    except OSError:
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            text = refused(pushed(f"http://127.0.0.1:{listening.getsockname()[1]}"))
        finally:
            over.set()
            thread.join()
    assert "timed out" in text or "more than 0.5 s" in text


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("nowhere", ()),
        ("ftp://127.0.0.1/", ()),
        ("http://:4040", ()),
        ("http://127.0.0.1:99999", ()),
        ("http://me:secret@127.0.0.1:1", ()),
        ("http://127.0.0.1:1", ("-o", "a.pb")),
        ("http://127.0.0.1:1", ("--format", "json")),
        ("http://127.0.0.1:1", (str(CASE),)),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_read(
    url: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinprof.cli.pipeline.explain", lambda *_, **__: pytest.fail("reads the recording"))
    assert "secret" not in refused(pushed(url, *options))
