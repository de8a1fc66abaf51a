"""`srifty watch --web`, as a process: what it says, shows, and leaves."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("jinja2")

from srifty.cli.watch import _token
from srifty.core.events import VmEvent, VmEventKind
from tests.command import srifty
from tests.control.ledger_writer import POOL
from tests.control.told import told_ledger

PATIENCE_S = 120.0


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("SRIFTY_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("SRIFTY_WATCH_TOKEN", raising=False)
    return tmp_path / "runs"


@contextlib.contextmanager
def watching():
    """The process and the address that it says."""
    command = [sys.executable, "-m", "srifty", "watch", "toy-1", "--web", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            said = process.stderr.readline()
            yield process, re.search(r"http://\S+?(?=;)", said)[0]
        finally:
            if process.poll() is None:
                process.kill()


def read(url):
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_page_follows_the_run_and_ctrl_c_ends_the_showing_alone(runs):
    path = runs / "toy-1" / "ledger.db"
    with told_ledger(path) as ledger, watching() as (process, url):
        status, page = read(url)
        assert status == 200
        assert "vm-2: preempted" in page
        assert "vm-1: lost" not in page
        ledger.note_events(3, [VmEvent(290.0, VmEventKind.LOST, "vm-1", POOL, detail="silent")])
        until_s = time.monotonic() + PATIENCE_S
        while "vm-1: lost" not in (page := read(url)[1]) and time.monotonic() < until_s:
            time.sleep(0.1)
        assert "vm-1: lost" in page
        before = path.read_bytes()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stdout.read() == ""
        assert "Traceback" not in process.stderr.read()
        assert path.read_bytes() == before
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url, timeout=PATIENCE_S)


def test_a_token_is_ones_own_or_made_up_where_others_reach_the_address(monkeypatch):
    own = "a1" * 10
    monkeypatch.setenv("SRIFTY_WATCH_TOKEN", own)
    assert _token("127.0.0.1") == own
    assert _token("0.0.0.0") == own
    monkeypatch.delenv("SRIFTY_WATCH_TOKEN")
    assert _token("127.0.0.1") == ""
    made = {_token("0.0.0.0") for _ in range(9)}
    assert len(made) == 9
    assert all(re.fullmatch(r"[0-9a-f]{32}", token) for token in made)


@pytest.mark.parametrize(
    ("options", "token", "words"),
    [
        (("--once",), "", "leave out --once and --json"),
        (("--json",), "", "leave out --once and --json"),
        ((), "short", "at least 16 letters and digits"),
        ((), "0123456789abcdef&x", "at least 16 letters and digits"),
        (("--host", "no.such.host.invalid"), "", "cannot be listened at"),
    ],
)
def test_what_cannot_be_served_is_said(runs, monkeypatch, options, token, words):
    monkeypatch.setenv("SRIFTY_WATCH_TOKEN", token)
    with told_ledger(runs / "toy-1" / "ledger.db"):
        outcome = srifty("watch", "toy-1", "--web", *options)
    assert outcome.code == 2
    assert words in outcome.err
    assert "Traceback" not in outcome.err
