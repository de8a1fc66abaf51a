"""Processes of this machine: those of a VM, and what ends them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

# Every process of a VM carries this variable, by which it is found whoever started it.
VM_TAG = "SRIFTY_LOCAL_VM"

_PR_SET_PDEATHSIG = 1
# Gone; or ended, its files closed, and only not yet waited for.
_ENDED = ("", "Z", "X")
_libc = ctypes.CDLL(None, use_errno=True)


def dies_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Returns what a child calls before it runs its program, to be sent a signal if we die."""
    parent = os.getpid()

    def ask() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it died before we could ask
            os._exit(1)

    return ask


def tagged(tag: str, *settings: str) -> list[int]:
    """Returns the processes of a VM by their ids, but for this one.

    Args:
        tag: the VM's; every process of it has it in its environment.
        settings: further `NAME=value` that must be there.
    """
    wanted = {f"{VM_TAG}={tag}".encode(), *(setting.encode() for setting in settings)}
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # ended meanwhile, or another user's
        if wanted.issubset(variables):
            found.append(int(entry.name))
    return sorted(found)


def stopped(parents: Iterable[int]) -> list[int]:
    """Returns which processes are stopped (SIGSTOP), of some and all that they started."""
    found: list[int] = []
    to_see = list(parents)
    while to_see:
        pid = to_see.pop()
        if _state(pid) == "T":
            found.append(pid)
        with contextlib.suppress(OSError):  # ended meanwhile
            children = Path("/proc", str(pid), "task", str(pid), "children").read_text()
            to_see += map(int, children.split())
    return found


def end_all(pids: list[int], patience_s: float = 1.0) -> None:
    """Kills processes and waits until they have ended, and with them the locks that they held.

    Args:
        pids: the processes.
        patience_s: real seconds after which they are not waited for any more.
    """
    kill_all(pids)
    began_s = time.monotonic()
    while any(_state(pid) not in _ENDED for pid in pids):
        if time.monotonic() - began_s > patience_s:
            return
        time.sleep(0.01)


def kill_all(pids: list[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Sends a signal to processes; one that is gone is passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _state(pid: int) -> str:
    """Returns the letter by which the kernel tells what a process does; empty: it is gone."""
    try:
        # The name, in brackets, may hold spaces and brackets itself.
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
