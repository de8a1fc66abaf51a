"""An interpreter that has torch loaded and forks a VM's workers when it is told to.

`python -m srifty.cloud.local.preloaded` loads what training scripts load, reads one line from its
input, starts the workers that the line describes, and ends as torchrun does: with the code of the
first that fails, the others killed, or with 0.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from srifty.errors import InputError

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Loads, waits for the line, starts the workers and sees them end."""
    with contextlib.suppress(ImportError, InputError):  # workers without torch can be played, too
        importlib.import_module("srifty.training")
        # What the first DistributedDataParallel and optimizer would load in each worker anew.
        importlib.import_module("torch._dynamo")
    line = sys.stdin.readline()
    if not line:
        return
    asked: dict[str, Any] = json.loads(line)
    os.chdir(asked["workdir"])
    log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    parent = os.getpid()
    children: dict[int, None] = {}
    for variables in asked["workers"]:
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
            _work(asked["command"], variables)
        children[child] = None
    # Python's own end would take down all that torch loaded, piece by piece: a second of a core.
    os._exit(_wait(children))


def _wait(children: dict[int, None]) -> int:
    """Returns the code of the first worker that fails, after all have ended; 0 if none does."""
    failed = 0
    while children:
        child, status = os.wait()
        children.pop(child, None)
        code = os.waitstatus_to_exitcode(status)
        if code and not failed:
            failed = code if code > 0 else 128 - code
            for other in children:
                os.kill(other, signal.SIGKILL)
    return failed


def _work(command: list[str], variables: dict[str, str]) -> NoReturn:
    """Is a worker: runs the script, as Python would, and ends."""
    os.environ.update(variables)
    sys.argv = command
    sys.path.insert(0, str(Path(command[0]).parent))
    code = 0
    try:
        if command[0] == "-m":
            sys.argv = command[1:]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - the script's own error: told as Python would
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
