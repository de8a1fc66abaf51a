"""A metadata service on this machine that plays a script of replies."""

import contextlib
import http.server
import threading
from contextlib import contextmanager

TOKEN = "/latest/api/token"
ACTION = "/latest/meta-data/spot/instance-action"


@contextmanager
def playing(reply):
    """The URL of a server whose `reply(method, path, headers)` returns status and body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            status, body = reply(self.command, self.path, self.headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # who asked may have gone
                self.wfile.write(body.encode())

        do_GET = do_PUT = answer  # noqa: N815 - names that http.server looks for

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Ec2:
    """EC2's service: tokens serve so many questions; actions are replied one after the other.

    Args:
        actions: (status, body) of each authorised question; the last is repeated.
        uses: questions that a token serves.
    """

    def __init__(self, actions, uses=10**6):
        self.actions = list(actions)
        self.uses = uses
        self.tokens = 0
        self.left = 0
        self.asked = []

    def __call__(self, method, path, headers):
        if (method, path) == ("PUT", TOKEN):
            assert int(headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0
            self.tokens += 1
            self.left = self.uses
            self.asked.append("token")
            return 200, f"TOKEN-{self.tokens}"
        assert (method, path) == ("GET", ACTION)
        if headers["X-aws-ec2-metadata-token"] != f"TOKEN-{self.tokens}" or not self.left:
            self.asked.append(401)
            return 401, ""
        self.left -= 1
        status, body = self.actions[0]
        if len(self.actions) > 1:
            self.actions.pop(0)
        self.asked.append(status)
        return status, body
