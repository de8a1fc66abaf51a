"""How far training is, from the lines that workers append and the checkpoints that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from srifty.cloud.backend import WorkerLines

_ENTRY = re.compile(r"step-(\d{12})", re.ASCII)


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
    """

    to_run_s: Callable[[float], float]
    after: dict[int, int] = field(default_factory=dict[int, int])
    iteration: int = 0
    durable: int = 0
    heard_at_s: float = 0.0
    starts: list[int] = field(default_factory=list[int])
    loss: float | None = None
    made: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    def read(self, lines: Sequence[WorkerLines]) -> None:
        """Takes in new lines; `made` then holds the steps that are new: when, and how many."""
        self.made = []
        for worker in lines:
            self.after[worker.rank] = worker.after
            for line in worker.lines:
                said = _parsed(line)
                if said is not None:
                    self._hear(said, is_first=worker.rank == 0)

    def _hear(self, said: dict[str, Any], *, is_first: bool) -> None:
        at_s = self.to_run_s(float(said["at"]))
        self.heard_at_s = max(self.heard_at_s, at_s)
        if not is_first:
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
