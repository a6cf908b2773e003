"""Send a report's pprof profile to a server of continuous profiling: Pyroscope, or Alloy before it.

The server gets one request, within a limited time, and no answer of it is followed elsewhere. Credentials come from
the environment alone: they are in no command line, no capture and no message.

Source: grafana.com/docs/pyroscope/latest/reference-server-api, `push.v1.PusherService/Push` as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import io
import json
import os
import re
import socket
import ssl
from threading import Timer
from urllib.parse import SplitResult, urlsplit

from pinprof.analyze import Run
from pinprof.base.errors import CollectError, UsageError
from pinprof.fleet.aggregate import program_of
from pinprof.report.export import pprof

AUTHORIZATION = "PINPROF_PUSH_AUTHORIZATION"
"""The environment's variable with the whole header, for example `Bearer …`."""
TENANT = "PINPROF_PUSH_TENANT"
"""The environment's variable with Pyroscope's tenant."""
WITHIN_S = 20.0
"""The time to connect, and again for the request with its answer."""
_PATH = "/push.v1.PusherService/Push"
_MOST_ANSWER = 1 << 16
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_NAME = "pinprof"
"""Pyroscope's name of the kind of profile: its types are `pinprof:EVENT:UNIT:…`."""


def push(analysis: Run, place: SplitResult, *, all_frames: bool = False) -> str:
    """Send the profile, and say what was sent where; CollectError where that fails."""
    body = _request(analysis, all_frames=all_frames)
    headers = {"Content-Type": "application/json", "User-Agent": "pinprof"}
    for name, variable in (("Authorization", AUTHORIZATION), ("X-Scope-OrgID", TENANT)):
        if value := os.environ.get(variable):
            headers[name] = value
    shown = f"{place.scheme}://{place.netloc}"
    try:
        status, answer = _sent(place, body, headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise CollectError(
            f"{shown} does not take the profile: {reason}.", "Check the address and that the server runs.", "push"
        ) from error
    if status != http.HTTPStatus.OK:
        said = " ".join(answer.decode("utf-8", "replace").split())
        raise CollectError(
            f"{shown} answers {status}: {said or 'nothing'}.",
            f"Check the address; credentials go into {AUTHORIZATION}, a tenant into {TENANT}.",
            "push",
        )
    return f"Sent {len(body):,} bytes about {_service(analysis)} to {shown}."


def _service(analysis: Run) -> str:
    """What the server calls the program."""
    return analysis.capture.manifest.labels.get("service_name") or program_of(analysis) or "program"


def place_of(url: str) -> SplitResult:
    """The server's address; UsageError for what is none, or holds credentials."""
    try:
        place = urlsplit(url)
        usable = place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError("--push needs the address of a server.", "Give http://HOST:4040, for example.", "push")
    if "@" in place.netloc:
        raise UsageError(
            "--push takes no credentials: other users see command lines.",
            f"Put the header's value into the environment: {AUTHORIZATION}='Basic …'.",
            "push",
        )
    return place


def _request(analysis: Run, *, all_frames: bool) -> bytes:
    profile = io.BytesIO()
    pprof.write(analysis, profile, all_frames=all_frames)
    given = {_NO_LABEL.sub("_", name): value for name, value in analysis.capture.manifest.labels.items()}
    labels = {**given, "service_name": _service(analysis), "__name__": _NAME}
    series = {
        "labels": [{"name": name, "value": value} for name, value in labels.items()],
        "samples": [{"rawProfile": base64.b64encode(gzip.compress(profile.getvalue(), mtime=0)).decode("ascii")}],
    }
    return json.dumps({"series": [series]}).encode()


def _sent(place: SplitResult, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """The status of the answer, and the beginning of what it says."""
    host = place.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, place.port, timeout=WITHIN_S, context=ssl.create_default_context())
        if place.scheme == "https"
        else http.client.HTTPConnection(host, place.port, timeout=WITHIN_S)
    )
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    try:
        connection.connect()
        connected: socket.socket = connection.sock
        timer = Timer(WITHIN_S, end)
        timer.daemon = True
        timer.start()
        try:
            connection.request("POST", place.path.rstrip("/") + _PATH, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise TimeoutError(f"it took more than {WITHIN_S:g} s") if ended else error from None
        finally:
            timer.cancel()
    finally:
        connection.close()
