"""The loop of a training: `for step, batch in steps(loader, run)`."""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from srifty._torch import torch
from srifty.errors import InputError, SaveFailed
from srifty.training._session import session
from srifty.training.checkpoint import entry_of
from srifty.training.exchange import Exchange, Reading
from srifty.training.lost_worker import explain_lost_workers
from srifty.training.notices import NoticeWatch
from srifty.training.order import seed_of
from srifty.training.pace import Pace
from srifty.training.progress import ProgressLog, StepLine
from srifty.training.rows import rows
from srifty.training.run import Dealer, Run
from srifty.training.sampler import GlobalBatchSampler
from srifty.training.stopping import Reason, StopWatch, Wish

_log = logging.getLogger(__name__)


def steps(loader: Any, run: Run, *, in_passes: bool = False) -> Iterator[tuple[int, Any]]:
    """Yields each global step's number and this worker's batch, from where training stopped.

    Before the first step the newest whole checkpoint is put back. A step counts as made when the
    next one is asked for. Each is logged; state is saved when it is due; and when any worker hears
    that training should stop (a file, SIGTERM, a notice of interruption), all save and stop after
    the same step, the next one or the one after it. `run.finished` says afterwards which it was.

    Torch's random numbers are drawn anew in each step, from the run's seed, the step and the rank.
    Whatever else depends on time should depend on the step alone: learning rates, evaluations.

    Args:
        loader: a DataLoader with a `GlobalBatchSampler` as `batch_sampler`, or one of a
            `GlobalBatchStream` with `batch_size=None`.
        run: what is saved, and where.
        in_passes: whether to yield a list with a batch for each pass of this worker (see `passes`),
            which a plan with accumulation needs.

    Raises:
        InputError: the loader deals no global batches, the checkpoint does not fit the script, or
            there is accumulation without `in_passes`.
        SaveFailed: all else is done, and the last state could not be saved, tried twice.
        TrainingStalled: training began at one step again and again.
    """
    dealer = _dealer_of(loader)
    if not in_passes and max(run.share.accumulations) > 1:
        raise InputError(
            "this split has workers that make several passes in a step; write "
            "`for step, batches in st.steps(loader, run, in_passes=True)` and in it "
            "`for batch in st.passes(model, batches)`"
        )
    session().awaits_steps = False
    run.resume(dealer)
    if run.step == dealer.total_steps:
        if run.share.rank == 0:
            _log.warning("all %d steps were made before; there is nothing to train", run.step)
        run.finished = True
        return
    run.note_start()
    with ExitStack() as stack:
        undo = explain_lost_workers(run.where_to_go_on) if run.group is not None else None
        loop = _Loop(run, dealer, stack)
        torch.manual_seed(seed_of(run.seed, run.step, run.share.rank))
        for batches in _by_step(loader, dealer, run):
            loop.begin_step()
            yield run.step, batches if in_passes else batches[0]
            if loop.end_step():
                run.finished = run.step == dealer.total_steps
                break
        else:
            run.finished = True
        loop.end()
        if undo is not None:
            undo()


class _Loop:
    """What is open while training goes on.

    Args:
        run: whose step is counted on.
        dealer: of the global batches.
        stack: closes what is opened here.
    """

    def __init__(self, run: Run, dealer: Dealer, stack: ExitStack) -> None:
        self._run = run
        self._dealer = dealer
        watches = [NoticeWatch(source) for source in run.notices]
        self._stops = stack.enter_context(StopWatch(run.stop_file, watches))
        self._log: ProgressLog | None = None
        if run.progress is not None:
            self._log = stack.enter_context(ProgressLog(run.progress, run.share.rank))
        self._exchange = Exchange(run.group)
        self._reading: Reading | None = None
        # Steps that were made and whose loss is on its way.
        self._unlogged: deque[StepLine] = deque()
        self._has_heard = False
        self._hurry = False
        self._reason: Reason | None = None
        self._step_s = 0.0
        self._made = 0
        self._pace = Pace.from_environment()
        self._saved_s = self._ended_s = time.perf_counter()
        stack.callback(self._close)

    def begin_step(self) -> None:
        """Prepares for the body of a step."""
        run = self._run
        session().begin_step(self._dealer.size_at(run.step))
        torch.manual_seed(seed_of(run.seed, run.step, run.share.rank))

    def end_step(self) -> bool:
        """Counts a step as made; returns whether all workers stop."""
        run = self._run
        played_s = self._pace.hold(self._ended_s)
        now_s = time.perf_counter()
        self._step_s, self._ended_s = now_s - self._ended_s, now_s
        if self._log is not None:
            size = self._dealer.size_at(run.step)
            samples = _own(run, size)
            self._unlogged.append(
                StepLine(
                    *(run.step, time.time(), self._step_s, samples, size, None),
                    exchange_s=self._exchange_s(played_s),
                )
            )
        self._made += 1
        run.step += 1
        heard = self._swap(session().step_loss(), self._wish())
        self._hurry, self._reason = heard.hurry, heard.stop
        if heard.save or run.is_due():
            self._save()
        return heard.stop is not None

    def _exchange_s(self, played_s: float) -> float | None:
        """Returns what the exchange took of the step that ends, where that is known now."""
        if self._run.share.world_size == 1:
            return 0.0
        waits = session().waits
        waited_s = None if waits is None else waits.after(self._made)
        return None if waited_s is None else waited_s + played_s

    def end(self) -> None:
        """Saves, and logs the last losses; all workers call it after the same step.

        Raises:
            SaveFailed: on all workers, if one could not save, twice.
        """
        self._log_last_losses()
        outcome = self._save_last()
        if self._reason is not None and self._run.share.rank == 0:
            _log.warning(
                "training stops before step %d: %s; %s",
                self._run.step,
                self._reason.value,
                outcome,
            )

    def _log_last_losses(self) -> None:
        # The sums that are on their way, then those of the last step's loss.
        self._swap(None, Wish())
        self._hear(self._exchange.last())

    def _save_last(self) -> str:
        """Returns what became of the last state."""
        run, checkpoints = self._run, self._run.checkpoints
        if checkpoints is None:
            return "nothing is saved, as there is no folder"
        if self._hurry:
            checkpoints.wait()
            return f"there is no time for another save, go on {run.where_to_go_on()}"
        self._save()
        checkpoints.wait()
        if run.company.any(checkpoints.last_failure is not None):
            # A storage may be out of reach for a moment only, and this is all that is left to do.
            self._save()
            checkpoints.wait()
        failure = checkpoints.last_failure
        if run.company.any(failure is not None):
            raise SaveFailed(
                f"{checkpoints.folder.where}: the state after {run.step} steps could not be saved "
                f"({failure or 'by another worker'}); all else is done, and the state is still in "
                "this process: whoever catches srifty.errors.SaveFailed can save it elsewhere"
            )
        return f"saved in {checkpoints.folder.where}/{entry_of(run.step)}"

    def _close(self) -> None:
        """Logs what is left, without its loss where others would be needed; lets a save end."""
        if self._run.group is None and self._unlogged:
            self._log_last_losses()
        for line in self._unlogged:
            if self._log is not None:
                self._log.append(line)
        if self._run.checkpoints is not None:
            self._run.checkpoints.wait()

    def _wish(self) -> Wish:
        checkpoints = self._run.checkpoints
        is_busy = checkpoints is not None and checkpoints.is_busy
        if checkpoints is not None and not is_busy:
            checkpoints.warn()
        asked = self._stops.wish(
            save_s=None if checkpoints is None else checkpoints.save_s,
            step_s=self._step_s,
            is_busy=is_busy,
        )
        interval_s = self._run.due_interval_s()
        late = interval_s is not None and time.perf_counter() - self._saved_s > interval_s
        if late and not is_busy and self._run.share.rank == 0:
            return replace(asked, save=True)
        return asked

    def _save(self) -> None:
        self._run.save(self._dealer)
        self._saved_s = time.perf_counter()

    def _swap(self, loss: Any, wish: Wish) -> Wish:
        """Sends the last step's loss and this one's wish; returns what was wished a step ago."""
        known = None if self._reading is None else self._reading.value()
        self._reading = Reading(loss)
        stops = [wish.stop is reason for reason in Reason]
        numbers = [known or 0.0, known is not None, wish.save, wish.hurry, *stops]
        sums = self._exchange.swap([float(number) for number in numbers])
        return Wish() if sums is None else self._hear(sums)

    def _hear(self, sums: list[float]) -> Wish:
        """Logs the step whose loss the sums hold, and returns what was wished with them."""
        loss_sum, with_loss, save, hurry, *stops = sums
        # The first sums were sent with the first step, before there was a loss.
        if self._has_heard and self._unlogged:
            line = self._unlogged.popleft()
            workers = self._run.share.world_size
            loss = loss_sum / workers if with_loss == workers else None
            if self._log is not None:
                self._log.append(replace(line, loss=loss))
        self._has_heard = True
        asked = [reason for reason, times in zip(Reason, stops, strict=True) if times > 0]
        return Wish(stop=asked[0] if asked else None, save=save > 0, hurry=hurry > 0)


def _own(run: Run, size: int) -> int:
    """Returns how many of a step's samples are this worker's."""
    share = run.share
    end = share.start + share.local_batch
    return end * size // share.global_batch - share.start * size // share.global_batch


def _dealer_of(loader: Any) -> Dealer:
    candidates: list[Any] = [getattr(loader, name, None) for name in ("batch_sampler", "dataset")]
    for dealer in candidates:
        if hasattr(dealer, "start_at") and hasattr(dealer, "size_at"):
            return dealer
    raise InputError(
        "steps needs a loader that deals global batches: "
        "DataLoader(dataset, batch_sampler=GlobalBatchSampler(dataset, share)), or "
        "DataLoader(GlobalBatchStream(...), batch_size=None)"
    )


def _by_step(loader: Any, dealer: Dealer, run: Run) -> Iterator[list[Any]]:
    """Yields the batches of each step, as many as this worker makes passes."""
    if isinstance(dealer, GlobalBatchSampler) and dealer.leaves_workers_idle:
        loader.collate_fn = _OrEmpty(loader.collate_fn, loader.dataset)
    batches: Iterator[Any] = iter(loader)
    while True:
        parts = (
            len(dealer.parts_at(run.step))
            if isinstance(dealer, GlobalBatchSampler)
            else run.share.accumulation
        )
        found = list(itertools.islice(batches, parts))
        if not found:
            return
        if len(found) < parts:
            raise InputError(
                f"the loader ended within step {run.step}: {len(found)} of {parts} passes"
            )
        yield found


class _OrEmpty:
    """Makes a batch without samples where there are none, in the shape of one with one.

    Args:
        collate: makes a batch of samples.
        dataset: whose first sample shows the shape.
    """

    def __init__(self, collate: Any, dataset: Any) -> None:
        self._collate = collate
        self._dataset = dataset

    def __call__(self, samples: list[Any]) -> Any:
        """Returns the batch."""
        if samples:
            return self._collate(samples)
        return rows(self._collate([self._dataset[0]]), slice(0, 0))
