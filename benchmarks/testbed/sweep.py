"""Removes what a bed leaves: its own when it ends, and those of runs that were killed.

    python3 -m benchmarks.testbed.sweep

as root, needs nothing installed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.testbed.preflight import preflight
from benchmarks.testbed.procfs import ProcessId, network_namespace, process_id, processes
from benchmarks.testbed.state import NAMESPACES, STATE, locked, namespaces, records

SETTLE_S = 60.0  # a killed process needs a core to end, and may find all of them taken


@dataclass(frozen=True)
class Swept:
    """What was removed.

    Attributes:
        beds: names of beds whose driver had died, and of namespaces without a record.
        namespaces: how many network namespaces, with every device in them.
        processes: how many processes were killed.
    """

    beds: tuple[str, ...] = ()
    namespaces: int = 0
    processes: int = 0

    def __str__(self) -> str:
        if not self.beds:
            return "Nothing was left by earlier runs."
        return (
            f"Removed what {len(self.beds)} earlier run(s) had left: {self.namespaces} network "
            f"namespaces with their devices, {self.processes} processes."
        )


def inside(names: Iterable[str]) -> list[ProcessId]:
    """The processes in any of these network namespaces, whoever started them."""
    inodes: set[int] = set()
    for name in names:
        with suppress(FileNotFoundError):
            inodes.add((NAMESPACES / name).stat().st_ino)
    found = (process_id(pid) for pid in processes() if network_namespace(pid) in inodes)
    return [process for process in found if process is not None]


def kill(targets: Iterable[ProcessId]) -> int:
    """Kills processes by number, each only while it is the one meant; returns how many.

    Raises:
        RuntimeError: one was still there a minute after it was killed.
    """
    killed: list[ProcessId] = []
    for process in targets:
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            # With the handle open the number cannot pass to another process unnoticed.
            if process.alive:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                killed.append(process)
        except ProcessLookupError:
            continue
        finally:
            os.close(handle)
    deadline = time.monotonic() + SETTLE_S
    while stuck := [process for process in killed if process.alive]:
        if time.monotonic() > deadline:
            numbers = ", ".join(str(process.pid) for process in stuck)
            raise RuntimeError(f"processes that survive SIGKILL: {numbers}")
        time.sleep(0.005)
    return len(killed)


def remove(names: list[str], known: Iterable[ProcessId] = ()) -> int:
    """Kills what runs in these namespaces, and `known`, then removes the namespaces.

    Devices go with their namespace. Returns how many processes were killed.
    """
    killed = kill({*known, *inside(names)})
    while late := inside(names):  # forked while the others were being killed
        killed += kill(late)
    if names:
        lines = "".join(f"netns del {name}\n" for name in names)
        subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True)
    return killed


def sweep_leftovers() -> Swept:
    """Removes the beds of drivers that are no longer there; living beds are left alone."""
    beds: list[str] = []
    gone = killed = 0
    with locked():
        found = records()
        living = [record.bed for record in found if record.driver.alive]
        for record in found:
            if record.bed not in living:
                names = namespaces(record.bed)
                killed += remove(names, record.processes)
                record.path.unlink(missing_ok=True)
                beds.append(record.bed)
                gone += len(names)
        orphans = [name for name in namespaces() if not name.startswith(tuple(living))]
        killed += remove(orphans)
        for partial in STATE.glob("*.partial"):
            if partial.stem not in living:
                partial.unlink()
    return Swept((*beds, *orphans), gone + len(orphans), killed)


def main() -> int:
    """Removes what killed runs left and says what it was; returns the exit code."""
    if missing := preflight():
        print("\n".join(missing), file=sys.stderr)
        return 2
    print(sweep_leftovers())
    return 0


if __name__ == "__main__":
    sys.exit(main())
