"""Ctrl-C before a command has begun, and after it has ended: always in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.command import write_job

# A process that gets Ctrl-C in the middle of the import of one module.
_INTERRUPTED = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
            sys.stderr.write("went on")

sys.meta_path.insert(0, Interrupting())
sys.argv = ["srifty", *{arguments!r}]
from srifty.cli.start import main
main()
"""
_AT_THE_END = """
import atexit, os, signal, sys
sys.argv = ["srifty", "--version"]
from srifty.cli.start import main
atexit.register(os.kill, os.getpid(), signal.SIGINT)
main()
"""


_THROUGH_EXEC = """
import sys
from srifty.cli import plan
from srifty.cli.start import main

def interrupted(*_):
    exec("raise KeyboardInterrupt")

plan.open_job = interrupted
sys.argv = ["srifty", "plan", {job!r}]
{main}()
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
    )


@pytest.mark.parametrize(
    ("module", "command"),
    [("typer", "plan"), ("srifty.cli.plan", "plan"), ("numpy", "plan"), ("torch", "profile")],
)
def test_ctrl_c_during_an_import_is_code_130_and_one_word(tmp_path, module, command):
    if module == "torch":
        pytest.importorskip("torch")
    arguments = [command, str(write_job(tmp_path)) if command == "plan" else "m:f"]
    done = run(_INTERRUPTED.format(module=module, arguments=arguments))
    assert (done.returncode, done.stderr, done.stdout) == (130, "stopped\n", "")


def test_ctrl_c_in_text_that_a_library_executes_is_code_130_too(tmp_path):
    (tmp_path / "script.py").write_text(
        _THROUGH_EXEC.format(job=str(write_job(tmp_path)), main="main")
    )
    done = run(f"import runpy; runpy.run_path({str(tmp_path / 'script.py')!r})")
    assert (done.returncode, done.stderr) == (130, "stopped\n")


def test_where_ctrl_c_is_ignored_it_stays_so(tmp_path):
    code = _INTERRUPTED.format(module="typer", arguments=["--version"])
    done = run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + code)
    assert (done.returncode, done.stderr) == (0, "went on")


def test_ctrl_c_after_the_last_word_leaves_the_outcome_alone():
    # Registered before what the start registers: called after it, as the very end is.
    done = run(_AT_THE_END)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("srifty")


def test_the_handler_that_was_there_is_put_back():
    from srifty.cli.start import ending_at_once

    before = signal.getsignal(signal.SIGINT)
    with ending_at_once():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
