"""How much of the machine's CPUs a bed's processes take, and everything else."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.testbed.procfs import ProcessId, cpu_s, machine_cpu_s


@dataclass(frozen=True)
class CpuUse:
    """Mean use over a span of time.

    Attributes:
        own_cores: cores' worth of CPU time of the bed's processes.
        all_cores: of everything on the machine, interrupts included.
        cores: how many cores there are.
        span_s: over how long.
    """

    own_cores: float
    all_cores: float
    cores: int
    span_s: float

    @property
    def foreign_cores(self) -> float:
        """Cores' worth that was not the bed's; interrupts on its behalf are among them."""
        return max(0.0, self.all_cores - self.own_cores)


class CpuMeter:
    """Use since the last reading; made once, read as often as wanted.

    A process that has ended counts once this process, or another that is counted, has waited for
    it. This process's other children count too: those that set rates, for instance.

    Args:
        members: gives the processes to count now.
    """

    def __init__(self, members: Callable[[], Iterable[ProcessId]]) -> None:
        self._members = members
        self._at_s, self._all_s, self._own_s = self._now()

    def _now(self) -> tuple[float, float, float]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        running_s = sum(cpu_s(process.pid) for process in self._members())
        return time.monotonic(), machine_cpu_s(), ended.ru_utime + ended.ru_stime + running_s

    def read(self) -> CpuUse:
        """Mean use since the last call, or since this was made."""
        before_s, all_s, own_s = self._at_s, self._all_s, self._own_s
        self._at_s, self._all_s, self._own_s = self._now()
        span_s = max(self._at_s - before_s, 1e-9)
        return CpuUse(
            # Below 0 where a process has ended that nobody has waited for.
            own_cores=max(0.0, self._own_s - own_s) / span_s,
            all_cores=(self._all_s - all_s) / span_s,
            cores=os.cpu_count() or 1,
            span_s=span_s,
        )
