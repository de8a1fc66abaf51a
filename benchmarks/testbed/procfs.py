"""What /proc says of processes: who they are, which namespace they are in, how long they waited."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessId:
    """A process for sure: numbers are used again, a number with its start time is not.

    Attributes:
        pid: its number.
        started_ticks: clock ticks from the machine's start to the process's.
    """

    pid: int
    started_ticks: int

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        fields = stat_fields(self.pid)
        return fields is not None and int(fields[19]) == self.started_ticks and fields[0] != "Z"


def stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on (the third); None where there is no process."""
    try:
        # The second field, the command's name, may hold spaces and brackets.
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def process_id(pid: int) -> ProcessId | None:
    """The process that has this number now, or None."""
    fields = stat_fields(pid)
    return None if fields is None else ProcessId(pid, int(fields[19]))


def processes() -> Iterator[int]:
    """Numbers of all processes."""
    return (int(path.name) for path in PROC.iterdir() if path.name.isdigit())


def network_namespace(pid: int) -> int | None:
    """Inode of the network namespace of a process; None where it has gone, or is a zombie."""
    try:
        return (PROC / str(pid) / "ns" / "net").stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def cpu_s(pid: int) -> float:
    """CPU time of a process and of its children that were waited for, in s; 0 when it has gone."""
    fields = stat_fields(pid)
    return 0.0 if fields is None else sum(map(int, fields[11:15])) / TICKS_PER_S


def machine_cpu_s() -> float:
    """CPU time of everything on the machine since it started, kernel included, in s."""
    user, nice, system, _idle, _iowait, irq, softirq = map(
        int, (PROC / "stat").read_text().split("\n", 1)[0].split()[1:8]
    )
    return (user + nice + system + irq + softirq) / TICKS_PER_S


def queue_wait_s(pid: int | str = "self") -> float:
    """How long the threads of a process have been ready to run and were not, in s, since its start.

    Threads that ended are not counted. 0 where the process has gone.
    """
    total_ns = 0
    for thread in (PROC / str(pid) / "task").glob("*/schedstat"):
        try:
            total_ns += int(thread.read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total_ns / 1e9
