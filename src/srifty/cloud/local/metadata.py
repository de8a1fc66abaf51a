"""The metadata service of a played VM: notices of interruption as EC2 gives them (IMDSv2)."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path
ACTION_PATH = "/latest/meta-data/spot/instance-action"
_TOKEN = "local"  # noqa: S105 - nothing is guarded by it


class MetadataService:
    """Answers on a port of its own on this machine, in the background.

    Attributes:
        notice_unix_s: when the VM is going to be taken back, seconds since 1970; None: not at all.
        source: the service as `SRIFTY_NOTICES` names it.
    """

    def __init__(self) -> None:
        self.notice_unix_s: float | None = None
        service = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_PUT(self) -> None:
                """Gives a token."""
                self._answer(200 if self.path == TOKEN_PATH else 404, _TOKEN)

            def do_GET(self) -> None:
                """Tells what is going to happen to the VM."""
                if self.headers.get("X-aws-ec2-metadata-token") != _TOKEN:
                    self._answer(401, "")
                elif self.path != ACTION_PATH or service.notice_unix_s is None:
                    self._answer(404, "")
                else:
                    at = datetime.fromtimestamp(service.notice_unix_s, UTC)
                    body = {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
                    self._answer(200, json.dumps(body))

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
                """Says nothing: workers ask every few seconds."""

            def _answer(self, code: int, text: str) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.source = f"ec2=http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Answers no more."""
        self._server.shutdown()
        self._server.server_close()
