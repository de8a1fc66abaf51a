import os
import subprocess
import sys

import pytest
from benchmarks.testbed import __main__ as command_line
from benchmarks.testbed import preflight as module
from benchmarks.testbed.native import compiled
from benchmarks.testbed.preflight import preflight


def test_without_root_it_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [sentence for sentence in preflight() if "root" in sentence] == [
        "Network namespaces and traffic shaping need root: run this as root "
        "(in a container: with --privileged)."
    ]


def test_every_tool_that_lacks_is_named(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    found = " ".join(preflight())
    assert "`ip` is not found: install iproute2" in found
    assert "`tc` is not found" in found
    assert "`cc` is not found: install a C compiler" in found


def test_a_machine_that_cannot_delay(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module, "_refused", list)
    monkeypatch.setattr(module, "TUN", tmp_path / "tun")
    assert "modprobe tun" in preflight()[-1]


@pytest.mark.parametrize(
    ("trial", "refused"),
    [
        ("echo no >&2; exit 1", "This machine refuses network namespaces: no."),
        ("echo bridges; exit 1", "This machine refuses bridges: no reason given."),
    ],
)
def test_what_a_kernel_refuses_is_named(trial, refused, monkeypatch, tmp_path):
    for tool in ("ip", "tc", "cc", "unshare"):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{trial}\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert preflight()[0] == refused


def test_other_systems_are_told_so(monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Darwin", "", "", "", "")))
    assert preflight() == [
        "The emulated cluster is made of Linux network namespaces: run it on Linux."
    ]


def test_the_command_line_stops_where_something_lacks(monkeypatch, capsys):
    monkeypatch.setattr(command_line, "preflight", lambda: ["Root is needed."])
    monkeypatch.setattr(sys, "argv", ["testbed", "clean"])
    assert command_line.main() == 2
    assert capsys.readouterr() == ("", "Root is needed.\n")


@pytest.mark.skipif(
    subprocess.run(["sh", "-c", "command -v cc"], capture_output=True).returncode != 0,
    reason="no C compiler",
)
class TestNative:
    def test_compiles_once(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        compiled.cache_clear()
        try:
            path = compiled("epoll_pause")
            made = path.stat()
            compiled.cache_clear()
            assert compiled("epoll_pause").stat() == made
            assert list((tmp_path / "srifty" / "testbed").iterdir()) == [path]
        finally:
            compiled.cache_clear()

    def test_what_the_compiler_says_is_told(self, monkeypatch, tmp_path):
        (tmp_path / "enter.c").write_text("int main(void) { return x; }")
        monkeypatch.setattr("benchmarks.testbed.native.SOURCES", tmp_path)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        compiled.cache_clear()
        with pytest.raises(RuntimeError, match=r"cc could not compile .*enter\.c:(.|\n)*error"):
            compiled("enter")

    def test_a_namespace_that_is_not_there(self):
        done = subprocess.run(
            [compiled("enter"), "/nowhere", "other", "0", "true"], capture_output=True, text=True
        )
        assert done.returncode == 125
        assert done.stderr.startswith("enter: namespace /nowhere: ")

    def test_the_shim_rests_where_nothing_moves(self):
        # A readable pipe that nobody empties fires at once, for ever; unless something rests.
        script = (
            "import os, select, time\n"
            "readable, writable = os.pipe()\n"
            "os.write(writable, b'x')\n"
            "poll = select.epoll()\n"
            "poll.register(readable)\n"
            "began = time.perf_counter()\n"
            "for _ in range(2002): poll.poll()\n"
            "print(time.perf_counter() - began)\n"
        )
        environment = {**os.environ, "LD_PRELOAD": str(compiled("epoll_pause"))}
        out = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True
        ).stdout
        assert float(out) >= 2000 * 20e-6
