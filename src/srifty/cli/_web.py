"""A run's page over HTTP: one page, read only, to whoever may see it.

Nothing but `GET /` is answered. On loopback, somebody else's page that has a browser ask here, by a
name that points here, is turned away; anywhere else, whoever has no token is.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from srifty.errors import InputError, SriftyError

# A page this old is given to the next one who asks as well, however many there are.
_FRESH_S = 0.3
# Connections at a time; a watcher needs one.
_MOST_CONNECTIONS = 32
_MOST_PARAMETERS = 8
_SILENCE_S = 10
_HOST = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^:\[\]]+))(?::\d+)?")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Door:
    """Where a page is served, and to whom.

    Attributes:
        host: the address.
        port: 0: any free one.
        token: what whoever asks must know; empty: nothing, which only loopback may do.
    """

    host: str
    port: int
    token: str = ""

    def __post_init__(self) -> None:
        if not self.token and not is_loopback(self.host):
            raise InputError("an address that others reach needs a token", "--host")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class PageServer(ThreadingHTTPServer):
    """Serves one page.

    Args:
        door: where, and to whom.
        draw: returns the page; is given the nonce of its script.

    Raises:
        InputError: the address cannot be used.
    """

    daemon_threads = True

    def __init__(self, door: Door, draw: Callable[[str], str]) -> None:
        self.door = door
        self._draw = draw
        self._lock = threading.Lock()
        self._page: tuple[float, str, str] = (float("-inf"), "", "")
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        if ":" in door.host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((door.host, door.port), _Handler)
        except OSError as error:
            raise InputError(
                f"cannot be listened at: {error.strerror or error}; give another --host or --port",
                f"{door.host}:{door.port}",
            ) from None

    @property
    def url(self) -> str:
        """Where a browser finds the page."""
        host = f"[{self.door.host}]" if ":" in self.door.host else self.door.host
        token = f"?token={self.door.token}" if self.door.token else ""
        return f"http://{host}:{self.server_address[1]}/{token}"

    def page(self) -> tuple[str, str]:
        """Returns the page, at most a moment old, and the nonce of its script."""
        with self._lock:
            made_s, page, nonce = self._page
            if time.monotonic() - made_s > _FRESH_S:
                nonce = secrets.token_urlsafe(16)
                page = self._draw(nonce)
                self._page = (time.monotonic(), page, nonce)
            return page, nonce

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread, unless there are too many already."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers, and makes room for the next one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of clients that went away or sent nonsense."""


class _Handler(BaseHTTPRequestHandler):
    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride] - the only one
    server_version = "srifty"
    sys_version = ""
    timeout: ClassVar[int] = _SILENCE_S  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def _answer(self, *, has_body: bool) -> None:
        try:
            parts = urlsplit(self.path)
            asked = parse_qs(parts.query, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        if self.request_version == "HTTP/0.9":  # has no headers, so cannot say for whom it is
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        if not self._may_see(asked.get("token", [""])[0]):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        if parts.path != "/" or parts.scheme or parts.netloc:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            page, nonce = self.server.page()
        except SriftyError:  # such as a ledger that was moved away
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        body = page.encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header(
            "Content-Security-Policy",
            f"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'",
        )
        self._send_common_headers()
        if has_body:
            self.wfile.write(body)

    def _may_see(self, token: str) -> bool:
        if self.server.door.token:
            return hmac.compare_digest(token.encode(), self.server.door.token.encode())
        host = self.headers.get("Host", "")
        found = _HOST.fullmatch(host)
        names = (*_LOOPBACK_NAMES, self.server.door.host)
        return not host or (found is not None and (found[1] or found[2]) in names)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers with a status and nothing of what was asked."""
        del message, explain
        self.close_connection = True
        body = f"{int(code)} {HTTPStatus(code).phrase}\n".encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self._send_common_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_common_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has there
        """Keeps no log: addresses would hold tokens."""
