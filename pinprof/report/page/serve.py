"""Show one page over HTTP on the loopback interface, for machines without a browser.

Only the page's own bytes are ever sent, and only under a path with a random token: other users of the machine can reach
the port, but do not know the token, and there is no directory to walk. They cannot keep the page from its owner either:
connections are few, and each has little time to ask.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
import threading
import time
import traceback
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pinprof.base.errors import CollectError
from pinprof.base.terminal import say

HOST = "127.0.0.1"
_HOST_NAMES = (HOST, "localhost")
MOST_CONNECTIONS = 16
ASK_WITHIN_S = 5.0
"""For a whole request to arrive."""
_NOTHING = b"There is nothing here. Open the whole address that pinprof printed.\n"
STALLED_S = 30.0
"""Without a byte that the other end takes."""


class PageServer(ThreadingHTTPServer):
    """Serves one page at `url`; port 0 lets the system choose."""

    daemon_threads = True

    def __init__(self, page: bytes, port: int = 0) -> None:
        self.page = page
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._asking: dict[socket.socket, float] = {}
        """Connections whose request has not arrived, and until when it must have."""
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise CollectError(
                f"Port {port} cannot be opened: {error}.", "Give another with --port, or leave it out.", "port"
            ) from error

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}{self.path}"

    @property
    def host_names(self) -> frozenset[str]:
        """What a browser that was given the URL calls this server: the port is left out only where it is HTTP's."""
        named = frozenset(f"{name}:{self.server_port}" for name in _HOST_NAMES)
        return named | frozenset(_HOST_NAMES) if self.server_port == 80 else named

    @property
    def other_name(self) -> str:
        """What to say to a browser that calls this server something else: it does so behind a forwarded port."""
        port = self.server_port
        return (
            f"pinprof serves this page only at http://{HOST}:{port}, and your browser asked for another host or port.\n"
            f"Forward the port to the same number, for example with ssh -L {port}:{HOST}:{port} MACHINE, or run the "
            "container with --network host. Then open the address that pinprof printed.\n"
            "The page is also a file, which you can copy and open.\n"
        )

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or hang up where too many do so already."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._asking[request] = time.monotonic() + ASK_WITHIN_S
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.asked(request)
            self._places.release()

    def asked(self, request: socket.socket) -> None:
        """Note that a request has arrived, or never will."""
        self._asking.pop(request, None)

    def service_actions(self) -> None:
        """Hang up on those who take too long to ask; called twice a second."""
        now = time.monotonic()
        for request, until in list(self._asking.items()):
            if now > until:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has hung up, or that was hung up on, needs no message."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            say("".join(traceback.format_exception(error)), error=True, end="")


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "pinprof"
    sys_version = ""
    timeout = STALLED_S

    def do_GET(self) -> None:
        """Send the page, or nothing else."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Send the page's headers."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        self.server.asked(self.connection)
        # A foreign name that resolves to this machine is a page of somebody else asking through the user's browser.
        if self.headers.get("Host", "").lower() not in self.server.host_names:
            self._send(HTTPStatus.FORBIDDEN, "text/plain", self.server.other_name.encode(), body=body)
        elif not secrets.compare_digest(self.path.encode(), self.server.path.encode()):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", _NOTHING, body=body)
        else:
            self._send(HTTPStatus.OK, "text/html", self.server.page, body=body)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, *, body: bool) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Keep the terminal for the summary; the token is in every request line."""
