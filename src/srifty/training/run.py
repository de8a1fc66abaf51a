"""A training that can be stopped, killed, and gone on with on other workers."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from srifty import __version__
from srifty._torch import torch
from srifty.errors import InputError, TrainingStalled
from srifty.training import checkpoint
from srifty.training._session import expect_steps
from srifty.training.batch_norm import combine_statistics, has_plain_batch_norm
from srifty.training.checkpoint import Checkpoint
from srifty.training.company import Company
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
        fresh: whether to begin at step 0 where there are checkpoints and all of them are damaged.
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
        company: all workers, who decide together.

    Raises:
        InputError: an argument is out of range, the folder cannot be written into, another training
            writes there, or the stop file is there already.
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
        fresh: bool = False,
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
        self._resumed = ""
        self.finished = False
        self.share = share
        self.seed = seed
        self._state = state
        self._save_every = save_every
        self._failures_s = failures_s
        self._fresh = fresh
        self._most_restarts = most_restarts
        self.progress = Path(progress) if progress else None
        self.stop_file = Path(stop_file) if stop_file else None
        self.notices = notices
        self.company = Company(share)
        # What the run says comes first: a script's own folder may hold another run's checkpoints.
        where = variables.get(CHECKPOINT) or folder
        self.checkpoints = (
            Checkpoints(where, state, keep=keep, rank=share.rank, group=self.company.save_group)
            if where
            else None
        )
        self.company.agree(self._claim(), "another worker cannot begin; see its error")
        expect_steps(share)
        self._driven = [False]
        weakref.finalize(self, _warn_if_not_driven, self._driven)

    def _claim(self) -> InputError | None:
        """Returns what stands in the way of training, if anything does."""
        if self.stop_file is not None and self.stop_file.exists():
            return InputError(
                "the stop file is there already, so training would stop at once; nothing removes "
                "it but you: delete it once the training that it stopped has ended",
                str(self.stop_file),
            )
        if self.checkpoints is not None and self.share.rank == 0:
            try:
                self.checkpoints.claim()
            except InputError as error:
                return error
        return None

    @property
    def group(self) -> Any:
        """All workers, for the numbers exchanged at each step; None for one worker."""
        return self.company.group

    def resume(self, dealer: Dealer) -> None:
        """Puts the newest whole checkpoint back, if there is one; all workers call it.

        Raises:
            InputError: it is another training's, or some worker cannot read it.
        """
        self._driven[0] = True
        if self.checkpoints is not None:
            self._load(self.checkpoints, dealer)
        dealer.start_at(self.step)

    def note_start(self) -> None:
        """Logs that training begins, and says where it goes on and what is made again.

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
        (again,) = self.company.from_first([again])
        if again and again % self._most_restarts == 0:
            raise TrainingStalled(
                f"training began at step {self.step} {again} times and never came to its next "
                "checkpoint; save more often (save_every=), find out what ends it, start again"
            )
        if self.share.rank == 0 and self._resumed:
            _log.warning("training goes on at %s", self._resumed)
        if self.share.rank == 0 and after > self.step:
            _log.warning(
                "at least %d steps that were made are lost and made again", after - self.step
            )

    def _load(self, checkpoints: Checkpoints, dealer: Dealer) -> None:
        found: Checkpoint | None = None
        problem: InputError | OSError | None = None
        if self.share.rank == 0:
            try:
                found = checkpoints.to_resume(fresh=self._fresh)
            except (InputError, OSError) as error:
                problem = error
        self.company.agree(problem, "worker 0 cannot go on; see its error")
        (step,) = self.company.from_first([-1 if found is None else found.step])
        if step < 0:
            return
        try:
            found = found or checkpoint.check(checkpoints.folder, step)
            _require_same(found.facts.get("training"), dealer.identity, checkpoints.folder.where)
            checkpoints.load(found)
        except (InputError, OSError) as error:
            problem = error
        self.company.agree(
            problem,
            f"{checkpoints.folder.where}: another worker cannot read the checkpoint of step "
            f"{step}; all workers need to see the folder: use a mounted one, or a URL such as "
            "s3://bucket/run1",
        )
        self.step = step
        if found is not None:
            self._resumed = _described(found, dealer, checkpoints.folder.where, self.share)

    def where_to_go_on(self) -> str:
        """Returns what a new start would go on with, for a sentence's end."""
        if self.checkpoints is None:
            return "from step 0, as nothing is saved"
        saved = self.checkpoints.saved_step
        step = "" if saved is None or self.share.rank else f" of step {saved}"
        return f"from the newest checkpoint{step} in {self.checkpoints.folder.where}"

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
            "srifty": __version__,
            "at": time.time(),
        }
        self.checkpoints.start(self.step, facts)


def _warn_if_not_driven(driven: list[bool]) -> None:
    if not driven[0]:
        _log.warning(
            "a Run was made and never given to steps: nothing was saved, logged or gone on with; "
            "write `for step, batch in st.steps(loader, run)`"
        )


def _described(found: Checkpoint, dealer: Dealer, where: str, share: Share) -> str:
    """Returns where training goes on, and who saved it."""
    total = "" if dealer.total_steps is None else f" of {dealer.total_steps}"
    saved: Any = found.facts.get("workers")
    count = len(cast("list[Any]", saved)) if isinstance(saved, list) else 0
    workers = f"{count} worker{'s' if count != 1 else ''}" if count else "unknown workers"
    return (
        f"step {found.step}{total} from {where}/{found.entry}, saved by {workers}, now "
        f"{share.world_size}"
    )


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
