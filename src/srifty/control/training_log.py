"""How far training is, from the lines that workers append and the checkpoints that there are."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from srifty.cloud.backend import WorkerLines
from srifty.core.events import WorkerStep

_ENTRY = re.compile(r"step-(\d{12})", re.ASCII)
# Steps of a worker that are kept.
_KEPT = 1000


class PairTimes(NamedTuple):
    """Two workers of a sweep, by rank, and seconds of their exchanges by bytes; None: no answer."""

    first: int
    second: int
    took: dict[str, float] | None


class _Timed(NamedTuple):
    """When a step ended (seconds since the command), and what it took (real seconds)."""

    at_s: float
    seconds: float | None
    exchange_s: float | None


@dataclass
class TrainingLog:
    """What the first worker said, over all worlds of a run.

    Attributes:
        to_run_s: turns seconds since 1970 into seconds since the command.
        after: for each rank, what to ask for next.
        iteration: iterations done, as far as training stands now.
        durable: iterations that the newest checkpoint known of holds.
        heard_at_s: when the last line was written, seconds since the command.
        starts: the iteration that each world began with.
        loss: of the newest step that has one.
        made: the steps that the last lines told of: when, and how many that makes.
        recent: the last steps of each worker.
        pairs: what workers of a sweep said: two ranks, and what an exchange of so many bytes took
            them; None for no answer.
    """

    to_run_s: Callable[[float], float]
    after: dict[int, int] = field(default_factory=dict[int, int])
    iteration: int = 0
    durable: int = 0
    heard_at_s: float = 0.0
    starts: list[int] = field(default_factory=list[int])
    loss: float | None = None
    made: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    recent: dict[int, deque[_Timed]] = field(default_factory=dict[int, "deque[_Timed]"])
    pairs: list[PairTimes] = field(default_factory=list["PairTimes"])

    def read(self, lines: Sequence[WorkerLines]) -> None:
        """Takes in new lines; `made` then holds the steps that are new: when, and how many."""
        self.made = []
        for worker in lines:
            self.after[worker.rank] = worker.after
            for line in worker.lines:
                said = _parsed(line)
                if said is not None:
                    self._hear(said, worker.rank)

    def worker_steps(
        self, vm_of: Sequence[str], since_s: float, factor: float
    ) -> tuple[WorkerStep, ...]:
        """Returns where each worker's time went; nothing where one of them does not say.

        Args:
            vm_of: the VM of each worker of the world, by rank.
            since_s: seconds since the command; older steps do not count.
            factor: seconds of the run that pass in one real second.
        """
        found: list[WorkerStep] = []
        for rank, vm in enumerate(vm_of):
            steps = [step for step in self.recent.get(rank, ()) if step.at_s > since_s]
            # The first step of a world has its start in it.
            took_s = [step.seconds for step in steps[1:] if step.seconds is not None]
            waited_s = [step.exchange_s for step in steps if step.exchange_s is not None]
            if not took_s or not waited_s:
                return ()
            exchange_s = sum(waited_s) / len(waited_s)
            compute_s = max(sum(took_s) / len(took_s) - exchange_s, 0.0)
            found.append(WorkerStep(rank, vm, compute_s * factor, exchange_s * factor))
        return tuple(found)

    def _hear(self, said: dict[str, Any], rank: int) -> None:
        at_s = self.to_run_s(float(said["at"]))
        self.heard_at_s = max(self.heard_at_s, at_s)
        if "pair" in said:
            first, second = sorted(map(int, said["pair"]))
            self.pairs.append(PairTimes(first, second, said["took"]))
        if "step" in said:
            kept = self.recent.setdefault(rank, deque(maxlen=_KEPT))
            kept.append(_Timed(at_s, said.get("seconds"), said.get("exchange_s")))
        if rank != 0:
            return
        if "start" in said:
            self.iteration = int(said["start"])
            self.durable = max(self.durable, self.iteration)
            self.starts.append(self.iteration)
        elif "step" in said:
            self.iteration = int(said["step"]) + 1
            self.made.append((at_s, self.iteration))
            self.loss = said.get("loss") or self.loss


def newest_checkpoint(folder: Path | None) -> int:
    """Returns the step of the newest checkpoint in a folder; 0 where there is none to be seen.

    Checkpoints are renamed into place when they are whole.
    """
    if folder is None or not folder.is_dir():
        return 0
    steps = [_ENTRY.fullmatch(entry.name) for entry in folder.iterdir()]
    return max((int(match[1]) for match in steps if match), default=0)


def _parsed(line: str) -> dict[str, Any] | None:
    """Returns a line's values; None where a kill tore it."""
    try:
        said: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict) or not isinstance(
        cast("dict[str, Any]", said).get("at"), (int, float)
    ):
        return None
    return cast("dict[str, Any]", said)
