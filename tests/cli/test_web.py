"""The page over HTTP: to whom it is shown, and what everybody else gets."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading

import pytest

from srifty.cli import _web
from srifty.cli._web import Door, PageServer, is_loopback
from srifty.errors import InputError, ModelError

TOKEN = "0123456789abcdef"
SECRET = "the page"


@contextlib.contextmanager
def serving(token="", draw=lambda nonce: f"<p>{SECRET} {nonce}</p>", host="127.0.0.1"):
    with PageServer(Door(host, 0, token), draw) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def send(server, data: bytes) -> bytes:
    """What raw bytes are answered with."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60) as raw:
        with contextlib.suppress(OSError):  # refused before all was sent
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := raw.recv(65536):
                answer += part
        return answer


def test_the_page_is_shown_and_may_load_nothing_else():
    with serving() as server:
        answer, body = ask(server)
        nonce = body.split()[-1].removesuffix("</p>")
        policy = answer.getheader("Content-Security-Policy")
        again, nothing = ask(server, method="HEAD")
    assert (answer.status, body) == (200, f"<p>{SECRET} {nonce}</p>")
    assert f"script-src 'nonce-{nonce}'" in policy
    assert policy.startswith("default-src 'none'")
    assert answer.getheader("Cache-Control") == "no-store"
    assert answer.getheader("Server").strip() == "srifty"
    assert (again.status, nothing) == (200, "")
    assert int(again.getheader("Content-Length")) == len(body)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?token=",
        "/?token=0123456789abcdeF",
        "/?token=0123456789abcde",
        "/?token=0123456789abcdef0",
        "/?token=wrong&token=0123456789abcdef",
        "/?Token=0123456789abcdef",
        "/?token=%00%ff",
        "/anything",
    ],
)
def test_a_wrong_token_is_turned_away(path):
    with serving(TOKEN) as server:
        answer, body = ask(server, path)
    assert (answer.status, body) == (403, "403 Forbidden\n")


def test_the_right_token_is_let_in():
    with serving(TOKEN) as server:
        assert server.url.endswith(f"/?token={TOKEN}")
        answer, body = ask(server, f"/?token={TOKEN}")
        assert answer.status == 200
        assert SECRET in body
        assert ask(server, f"/secret?token={TOKEN}")[0].status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/ledger.db",
        "/index.html",
        "http://127.0.0.1/",
        "/\\..\\..",
        "/%00",
    ],
)
def test_there_is_no_other_page(path):
    with serving() as server:
        answer, body = ask(server, path)
    assert (answer.status, body) == (404, "404 Not Found\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "MOO"])
def test_nothing_can_be_done_but_read(method):
    with serving() as server:
        answer, body = ask(server, method=method)
    assert answer.status == 501
    assert body == "501 Not Implemented\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n", b"431"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"GET / HTTP/x\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"GET / / / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /?" + b"&".join(b"a=b" for _ in range(99)) + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://[::1/ HTTP/1.1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 300_000, b"501"),
        (b"GET /\r\n", b"400"),
    ],
    ids=range(11),
)
def test_huge_and_malformed_requests_get_an_error_and_nothing_else(data, status):
    with serving() as server:
        answer = send(server, data)
        assert SECRET.encode() not in answer
        # A client that is still sending when it is refused may see the connection go instead.
        assert status in answer or (not answer and len(data) > 65_536)
        assert b"aaaa" not in answer
        assert ask(server)[0].status == 200


def test_another_sites_name_for_this_machine_is_turned_away():
    with serving() as server:
        port = server.server_address[1]
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", "[::1]:80"):
            assert ask(server, Host=host)[0].status == 200, host
        for host in (f"evil.example:{port}", "evil.example", "127.0.0.1.evil.example", "[::1].x"):
            assert ask(server, Host=host)[0].status == 403, host


def test_a_page_that_cannot_be_drawn_is_told_without_details():
    def fail(nonce):
        raise ModelError("/home/me/ledger.db is broken")

    with serving(draw=fail) as server:
        answer, body = ask(server)
    assert (answer.status, body) == (503, "503 Service Unavailable\n")


def test_many_who_ask_at_once_are_given_one_page(monkeypatch):
    drawn = []

    def draw(nonce):
        drawn.append(nonce)
        return f"{SECRET} {nonce}"

    monkeypatch.setattr(_web, "_FRESH_S", 1e9)
    with serving(draw=draw) as server:
        assert len({ask(server)[1] for _ in range(4)}) == 1
        assert len(drawn) == 1
        monkeypatch.setattr(_web, "_FRESH_S", 0.0)
        assert len({ask(server)[1] for _ in range(4)}) == 4
        assert len(set(drawn)) == 5


def test_connections_are_counted_and_given_back():
    with serving() as server:
        idle = [
            socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60)
            for _ in range(40)
        ]
        for connection in idle:
            connection.close()
        for _ in range(100):
            with contextlib.suppress(OSError, http.client.HTTPException):
                if ask(server)[0].status == 200:
                    break
        else:
            raise AssertionError("no room was made")


def test_an_address_that_others_reach_needs_a_token():
    with pytest.raises(InputError, match="needs a token"):
        Door("0.0.0.0", 0)
    assert Door("0.0.0.0", 0, TOKEN).token == TOKEN


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.4", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback(host, is_ours):
    assert is_loopback(host) is is_ours


def test_a_port_that_is_taken_is_named():
    with serving() as server, pytest.raises(InputError, match="give another --host or --port"):
        PageServer(Door("127.0.0.1", server.server_address[1]), str)
