"""A training that can be stopped, killed, and gone on with on other workers."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from srifty._torch import torch
from srifty.errors import InputError, TrainingStalled
from srifty.training import checkpoint
from srifty.training.batch_norm import combine_statistics, has_plain_batch_norm
from srifty.training.notices import NoticeSource, source_of
from srifty.training.progress import ProgressLog, StartLine, last_lines
from srifty.training.saver import Checkpoints
from srifty.training.share import Share
from srifty.training.stopping import save_interval_s

CHECKPOINT = "SRIFTY_CHECKPOINT"
PROGRESS = "SRIFTY_PROGRESS"
STOP = "SRIFTY_STOP"
NOTICES = "SRIFTY_NOTICES"

# The first save tells how long saves take, and what they cost.
_FIRST_SAVE_S = 30.0

_log = logging.getLogger(__name__)


class Dealer(Protocol):
    """What deals global batches: a `GlobalBatchSampler` or a `GlobalBatchStream`."""

    @property
    def identity(self) -> dict[str, int | str | bool]:
        """What must stay the same when a training goes on on other workers."""
        ...

    @property
    def total_steps(self) -> int | None:
        """Global steps of the whole training; None where it ends with the data."""
        ...

    def size_at(self, step: int) -> int:
        """Returns the samples of a global step."""
        ...

    def start_at(self, step: int) -> None:
        """Has the next iteration begin at a global step."""
        ...


class Run:
    """What a training needs to be saved, logged, stopped and gone on with; `steps` drives it.

    Args:
        share: of this worker.
        state: what is saved, by name: models, optimizers, schedulers, scalers.
        folder: of the checkpoints, a path or a URL that fsspec knows; SRIFTY_CHECKPOINT, which
            `srifty run` sets, counts more. With neither, nothing is saved.
        save_every: steps between two saves; if left out, as long as loses least time to saves and
            failures together.
        keep: how many checkpoints to keep, at least 2.
        failures_s: mean time between failures of the whole cluster, for `save_every`.
        seed: of torch's random numbers, which are drawn anew in each step.
        progress: folder of the log; what SRIFTY_PROGRESS says if left out. With neither, no log.
        stop_file: whose being there asks all workers to save and stop; what SRIFTY_STOP says.
        notices: sources of notices of interruption; those that SRIFTY_NOTICES names (`ec2`, `gcp`).
        most_restarts: how often training may begin at one step before it is called stalled.
        environment: the variables; those of the process if left out.

    Attributes:
        step: the global step that is being made, or comes next.
        finished: whether training went to its end.
        share: of this worker.
        seed: of torch's random numbers.
        checkpoints: where the state is saved; None for nowhere.
        progress: folder of the log; None for none.
        stop_file: whose being there asks for a stop; None for none.
        notices: sources of notices of interruption.
        group: of all workers, for the numbers exchanged at each step; None for one worker.

    Raises:
        InputError: an argument is out of range.
    """

    def __init__(
        self,
        share: Share,
        state: Mapping[str, Any],
        *,
        folder: str | Path | None = None,
        save_every: int | None = None,
        keep: int = 2,
        failures_s: float = 4 * 3600.0,
        seed: int = 0,
        progress: str | Path | None = None,
        stop_file: str | Path | None = None,
        notices: Sequence[NoticeSource] | None = None,
        most_restarts: int = 5,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        variables = os.environ if environment is None else environment
        if save_every is not None and save_every < 1:
            raise InputError(f"save_every must be 1 or more, not {save_every}")
        if notices is None:
            notices = [source_of(name) for name in variables.get(NOTICES, "").split(",") if name]
        progress = progress or variables.get(PROGRESS)
        stop_file = stop_file or variables.get(STOP)
        self.step = 0
        self.finished = False
        self.share = share
        self.seed = seed
        self._state = state
        self._save_every = save_every
        self._failures_s = failures_s
        self._most_restarts = most_restarts
        self.progress = Path(progress) if progress else None
        self.stop_file = Path(stop_file) if stop_file else None
        self.notices = notices
        self.group, save_group = _control_groups(share)
        # What the run says comes first: a script's own folder may hold another run's checkpoints.
        where = variables.get(CHECKPOINT) or folder
        self.checkpoints = (
            Checkpoints(where, state, keep=keep, rank=share.rank, group=save_group)
            if where
            else None
        )

    def resume(self, dealer: Dealer) -> None:
        """Puts the newest whole checkpoint back, if there is one; all workers call it.

        Raises:
            InputError: it is another training's, or some worker cannot read it.
        """
        if self.checkpoints is not None:
            self._load(self.checkpoints, dealer)
        dealer.start_at(self.step)

    def note_start(self) -> None:
        """Logs that training begins, and warns of steps that are made again.

        Raises:
            TrainingStalled: it has begun at this step again and again; the next start is let pass.
        """
        starts, after = [], 0
        if self.progress is not None:
            starts, after = last_lines(self.progress, self.share.rank)
            with ProgressLog(self.progress, self.share.rank) as log:
                log.append(StartLine(self.step, time.time(), self.share.world_size))
        others = [start != self.step for start in reversed(starts)]
        again = others.index(True) if True in others else len(others)
        (again,) = self._from_first([again])
        if again and again % self._most_restarts == 0:
            raise TrainingStalled(
                f"training began at step {self.step} {again} times and never came to its next "
                "checkpoint; save more often (save_every=), find out what ends it, start again"
            )
        if after > self.step:
            _log.warning(
                "training goes on at step %d; %d steps that were made are lost and made again",
                self.step,
                after - self.step,
            )

    def _load(self, checkpoints: Checkpoints, dealer: Dealer) -> None:
        found = checkpoints.newest() if self.share.rank == 0 else None
        (step,) = self._from_first([-1 if found is None else found.step])
        if step < 0:
            return
        problem: InputError | OSError | None = None
        try:
            found = found or checkpoint.check(checkpoints.folder, step)
            _require_same(found.facts.get("training"), dealer.identity, checkpoints.folder.where)
            checkpoints.load(found)
        except (InputError, OSError) as error:
            problem = error
        if self._any(problem is not None):
            raise problem or InputError(
                f"another worker cannot read the checkpoint of step {step}; all workers need to "
                "see the folder: use a mounted one, or a URL such as s3://bucket/run1",
                checkpoints.folder.where,
            )
        self.step = step

    def _from_first(self, numbers: list[int]) -> list[int]:
        """Returns the first worker's numbers on all workers."""
        if self.group is None:
            return numbers
        sent = torch.tensor(numbers, dtype=torch.int64)
        first = torch.distributed.get_global_rank(self.group, 0)
        torch.distributed.broadcast(sent, first, group=self.group)
        return sent.tolist()

    def _any(self, mine: bool) -> bool:
        """Returns whether it is so on any worker."""
        if self.group is None:
            return mine
        sent = torch.tensor(int(mine))
        torch.distributed.all_reduce(sent, torch.distributed.ReduceOp.MAX, group=self.group)
        return bool(sent)

    def due_interval_s(self) -> float | None:
        """Returns how long after a save the next is due; None if steps decide."""
        if self.checkpoints is None or self._save_every is not None:
            return None
        stall_s, save_s = self.checkpoints.stall_s, self.checkpoints.save_s
        if stall_s is None or save_s is None:
            return _FIRST_SAVE_S
        return save_interval_s(stall_s, save_s, self._failures_s)

    def is_due(self) -> bool:
        """Returns whether the step that comes next is one before which all workers save."""
        return self._save_every is not None and self.step % self._save_every == 0

    def save(self, dealer: Dealer) -> None:
        """Begins to save; all workers call it at the same step."""
        if self.checkpoints is None:
            return
        for owner in self._state.values():
            if isinstance(owner, torch.nn.Module) and has_plain_batch_norm(owner):
                combine_statistics(owner)
        facts = {
            "training": dealer.identity,
            "workers": list(self.share.local_batches),
            "torch": str(torch.__version__),
            "at": time.time(),
        }
        self.checkpoints.start(self.step, facts)


def _control_groups(share: Share) -> tuple[Any, Any]:
    """Returns two groups of all workers that send from the CPU, for numbers and for saves.

    Neither is used by the model: what runs beside it must not come between its messages.
    """
    if share.world_size == 1:
        return None, None
    distributed: Any = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        raise InputError("make the Run after distribute(model, share), which starts the processes")
    return distributed.new_group(backend="gloo"), distributed.new_group(backend="gloo")


def _require_same(saved: object, now: Mapping[str, Any], source: str) -> None:
    """Refuses to go on with other global batches than those trained with."""
    before = cast("dict[str, Any]", saved) if isinstance(saved, dict) else {}
    differing = [name for name in now if before.get(name) != now[name]]
    if differing:
        raise InputError(
            "; ".join(f"{n} was {before.get(n)!r} and is {now[n]!r}" for n in differing)
            + ": the order of samples would be another; go on with what it was, or save into "
            "another folder",
            source,
        )
