"""Show one page over HTTP on the loopback interface, for machines without a browser.

Only the page's own bytes are ever sent, and only under a path with a random token: other users of the machine can reach
the port, but do not know the token, and there is no directory to walk.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pinprof.errors import CollectError

HOST = "127.0.0.1"
_HOST_NAMES = (HOST, "localhost")


class PageServer(ThreadingHTTPServer):
    """Serves one page at `url`; port 0 lets the system choose."""

    daemon_threads = True

    def __init__(self, page: bytes, port: int = 0) -> None:
        self.page = page
        self.path = f"/{secrets.token_urlsafe(24)}/"
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


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "pinprof"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the page, or nothing else."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Send the page's headers."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        # A foreign name that resolves to this machine is a page of somebody else asking through the user's browser.
        if self.headers.get("Host", "").rpartition(":")[0] not in _HOST_NAMES:
            self.send_error(HTTPStatus.FORBIDDEN)
        elif not secrets.compare_digest(self.path.encode(), self.server.path.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self.send_response(HTTPStatus.OK)
            for name, value in (
                ("Content-Type", "text/html; charset=utf-8"),
                ("Content-Length", str(len(self.server.page))),
                ("Cache-Control", "no-store"),
                ("Referrer-Policy", "no-referrer"),
                ("X-Content-Type-Options", "nosniff"),
            ):
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(self.server.page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Keep the terminal for the summary; the token is in every request line."""
