"""A bed of hosts on which ranks live, and serve one run after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.testbed.bed import Bed
from benchmarks.testbed.commands import DEVICE
from benchmarks.testbed.cpu import CpuUse
from benchmarks.testbed.spec import Host, Network
from benchmarks.testbed.task import Task

_ROOT = Path(__file__).resolve().parents[2]
_FIRST_PORT = 29500
_READY_S = 120.0
_EVERYWHERE = {
    "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)]),
    "OMP_NUM_THREADS": "1",
    # Freed memory stays: gradients would else be mapped anew, page by page, in every step, on cores
    # that all ranks of the bed share.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
}
_SLACK_S = 60.0


class RunFailed(Exception):  # noqa: N818 - a run may fail; the sweep goes on
    """A process on the bed died or did not answer."""


@dataclass(frozen=True)
class Measured:
    """What a run showed.

    Attributes:
        seconds: timed iterations of each rank.
        waited_s: how long each rank was ready to run, in that time, and had no core.
        cpu: CPU use meanwhile.
    """

    seconds: tuple[tuple[float, ...], ...]
    waited_s: tuple[float, ...]
    cpu: CpuUse


def network_of(count: int, delay_ms: float, rate_mbit: float) -> Network:
    """Returns a network of equal hosts."""
    hosts = tuple(Host(f"vm{number}", rate_mbit) for number in range(count))
    return Network(hosts, delay_ms=delay_ms)


class Session:
    """Processes on a bed, started as torchrun would start them.

    Args:
        bed: stands.
        folder: where they leave what they found.
    """

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed, self.folder = bed, folder
        self._hosts = [host.name for host in bed.network.hosts]
        self._port = _FIRST_PORT

    def set_rates(self, rates_mbit: Sequence[float]) -> None:
        """Gives the first hosts these rates, and the idle ones the last of them."""
        padding = [rates_mbit[-1]] * (len(self._hosts) - len(rates_mbit))
        self.bed.reshape(dict(zip(self._hosts, [*rates_mbit, *padding], strict=True)))

    def environment(self, rank: int, world_size: int) -> dict[str, str]:
        """Returns what torchrun tells a rank, one rank per host."""
        return {
            "MASTER_ADDR": self.bed.address(self._hosts[0]),
            "MASTER_PORT": str(self._port),
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "GROUP_RANK": str(rank),
            "GROUP_WORLD_SIZE": str(world_size),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "GLOO_SOCKET_IFNAME": DEVICE,
        }

    def start(
        self,
        arguments: Sequence[str],
        world_size: int,
        log: Path,
    ) -> list[subprocess.Popen[Any]]:
        """Starts `python ARGUMENTS` as so many ranks, the k-th on the k-th host."""
        self._port += 1
        return [
            self.start_on(rank, arguments, log, self.environment(rank, world_size))
            for rank in range(world_size)
        ]

    @property
    def hosts(self) -> int:
        """Hosts of the bed."""
        return len(self._hosts)

    def start_on(
        self, host: int, arguments: Sequence[str], log: Path, extra: Mapping[str, str]
    ) -> subprocess.Popen[Any]:
        """Starts `python ARGUMENTS` on one host, with more variables in its environment."""
        with log.open("ab") as output:
            return self.bed.popen(
                self._hosts[host],
                [sys.executable, *arguments],
                env={**os.environ, **_EVERYWHERE, **extra},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def run(
        self,
        arguments: Sequence[str],
        world_size: int,
        log: Path,
        *,
        most_s: float,
    ) -> None:
        """Runs a command as so many ranks to its end.

        Raises:
            RunFailed: a rank failed, or they took too long.
        """
        await_all(self.start(arguments, world_size, log), most_s, log)


def await_all(children: Sequence[subprocess.Popen[Any]], most_s: float, log: Path) -> None:
    """Waits until processes have ended.

    Raises:
        RunFailed: one failed, or they took too long.
    """
    end_s = time.monotonic() + most_s
    for child in children:
        try:
            code = child.wait(max(0.1, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            for other in children:
                other.kill()
            raise RunFailed(f"not done after {most_s:.0f} s; see {log}") from None
        if code:
            raise RunFailed(f"a rank ended with {code}; see {log}")


class World:
    """Ranks that live on all hosts of a session; the first n of them run what is asked.

    Args:
        session: where.
        folder: for tasks and results; empty.
    """

    def __init__(self, session: Session, folder: Path) -> None:
        self._session, self._folder = session, folder
        self._number, self._lost = 0, False
        count = len(session.bed.network.hosts)
        self._log = folder / "ranks.log"
        self._children = session.start(
            ["-m", "benchmarks.testbed.worker", str(folder)], count, self._log
        )
        self._await([folder / "ready"], _READY_S)

    def run(self, task: Task, most_s: float) -> Measured:
        """Runs a task on the first ranks.

        Args:
            task: what.
            most_s: how long it may take at most.

        Raises:
            RunFailed: a rank died, or they took too long; this world is of no more use.
        """
        number, self._number = self._number, self._number + 1
        results = [self._folder / f"result-{number}-{rank}.json" for rank in range(len(task.seats))]
        self._session.bed.cpu()
        self._tell(number, task.to_text())
        self._await(results, most_s + _SLACK_S)
        use = self._session.bed.cpu()
        found = [json.loads(path.read_text(encoding="utf-8")) for path in results]
        return Measured(
            tuple(tuple(part["seconds"]) for part in found),
            tuple(part["waited_s"] for part in found),
            use,
        )

    @property
    def alive(self) -> bool:
        """Whether all ranks still serve."""
        return all(child.poll() is None for child in self._children) and not self._lost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the ranks; those that cannot be told, the bed ends."""
        if kind is not None or not self.alive:
            return
        self._tell(self._number, "end")
        try:
            await_all(self._children, _SLACK_S, self._log)
        except RunFailed:
            return  # the bed ends what is left

    def _tell(self, number: int, text: str) -> None:
        part = self._folder / "part"
        part.write_text(text, encoding="utf-8")
        part.rename(self._folder / f"task-{number}.json")

    def _await(self, paths: Sequence[Path], most_s: float) -> None:
        end_s = time.monotonic() + most_s
        while not all(path.exists() for path in paths):
            dead = [child.poll() for child in self._children if child.poll() is not None]
            if dead or time.monotonic() > end_s:
                why = f"a rank ended with {dead[0]}" if dead else f"no answer in {most_s:.0f} s"
                self._lost = True
                last = self._log.read_text(encoding="utf-8", errors="replace").strip()
                raise RunFailed(f"{why}: {last.splitlines()[-1] if last else 'no message'}")
            time.sleep(0.02)
