"""One batch size, tried in a process of its own: all memory is free before, and after (torch).

`python -m srifty.profiling.isolated FD` reads a request on its standard input and writes the
outcome to the open file FD, both as a line of JSON. It ends when its standard input does: a trial
whose parent was killed would hold the memory that the next search measures. What the user's code
prints goes to a file of which only the end is shown, should the process die.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any

from srifty.errors import SriftyError
from srifty.profiling.device import find_device
from srifty.profiling.host_memory import offer_to_killer
from srifty.profiling.memory_errors import verdict_of
from srifty.profiling.outcome import Outcome, Verdict
from srifty.profiling.trial import TrialSettings, run_trial
from srifty.profiling.workload import load_factory
from srifty.units import format_duration

START_UP_S = 180.0
"""How long a process may take to start, import and build its model."""

_SHOWN_LINES = 3
_SHOWN_CHARACTERS = 500


class IsolatedTrials:
    """Tries each batch size in a fresh interpreter, which makes the workload anew.

    Args:
        factory: `MODULE:FACTORY`.
        device: as `find_device` takes it, such as `cuda:0`.
        settings: how a size is tried.
        start_up_s: how long a process may take beside its steps.
    """

    def __init__(
        self, factory: str, device: str, settings: TrialSettings, start_up_s: float = START_UP_S
    ) -> None:
        self._factory = factory
        self._device = device
        self._settings = settings
        self._start_up_s = start_up_s

    def __call__(self, batch: int, seconds: float = math.inf) -> Outcome:
        """Returns what a trial of a batch size gave; a process that dies is an outcome too.

        Args:
            batch: samples in each pass.
            seconds: how long its steps may take, if that is less than the settings say.
        """
        settings = self._settings.within(seconds)
        request = {
            "factory": self._factory,
            "device": self._device,
            "batch": batch,
            "settings": dataclasses.asdict(settings),
        }
        began_s = time.perf_counter()
        limit_s = self._start_up_s + settings.seconds
        outcome = self._ask(batch, json.dumps(request), limit_s)
        return dataclasses.replace(outcome, seconds=time.perf_counter() - began_s)

    def _ask(self, batch: int, request: str, limit_s: float) -> Outcome:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as answer, tempfile.TemporaryFile("w+b") as printed:
            try:
                process = _start(request, writing, printed)
            finally:
                os.close(writing)
            try:
                code = process.wait(timeout=limit_s)
            except subprocess.TimeoutExpired:
                words = f"the trial did not end within {format_duration(limit_s)}"
                return Outcome(batch, Verdict.TOO_SLOW, words)
            finally:
                process.kill()  # does nothing once it has ended
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()
            # Processes that the user's code started may hold the pipe open: never wait for its end.
            os.set_blocking(reading, False)
            text = answer.read() or b""
            if code == 0 and text:
                return _outcome_from(json.loads(text))
            return _death(batch, code, _end_of(printed))


def _start(request: str, writing: int, printed: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts the process of a trial, with this one's module path."""
    process = subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
        [sys.executable, "-m", "srifty.profiling.isolated", str(writing)],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=printed,
        stderr=subprocess.STDOUT,
        pass_fds=(writing,),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
    )
    try:
        if process.stdin is not None:
            process.stdin.write(f"{request}\n".encode())
    except BrokenPipeError:
        return process  # it died at once; how is told by its exit code
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _death(batch: int, code: int, printed: str) -> Outcome:
    """Returns the outcome of a process that ended without one."""
    if code == -signal.SIGKILL:
        words = "the trial's process was killed, as the system does when memory runs out"
        return Outcome(batch, Verdict.OUT_OF_HOST_MEMORY, words)
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    said = f"; it said: {printed}" if printed else ""
    return Outcome(batch, Verdict.OTHER_ERROR, f"the trial's process ended {how}{said}")


def _end_of(printed: IO[bytes]) -> str:
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(size - 8 * _SHOWN_CHARACTERS, 0))
    lines = printed.read().decode("utf-8", errors="replace").split("\n")
    said = " | ".join([line.strip() for line in lines if line.strip()][-_SHOWN_LINES:])
    return said[-_SHOWN_CHARACTERS:]


def _outcome_from(document: dict[str, Any]) -> Outcome:
    document["verdict"] = Verdict(document["verdict"])
    return Outcome(**document)


def _tried(request: dict[str, Any]) -> Outcome:
    batch, device = request["batch"], find_device(request["device"])
    try:
        workload = load_factory(request["factory"])()
    except SriftyError as error:
        return Outcome(batch, verdict_of(error, device.kind), str(error))
    settings = TrialSettings(**request["settings"])
    return run_trial(workload, device, batch, settings)


def _end_with_parent() -> None:
    """Waits for the end of the standard input, and ends the process."""
    os.read(0, 1)
    os._exit(1)


def main() -> None:
    """Answers one request."""
    offer_to_killer()
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    outcome = _tried(request)
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as answer:
        json.dump({**dataclasses.asdict(outcome), "verdict": outcome.verdict.value}, answer)


if __name__ == "__main__":
    main()
