"""The share that this process trains with, for the losses, which users call without naming it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from srifty._torch import Tensor, torch
from srifty.errors import InputError
from srifty.training.current import current_share
from srifty.training.lent import lend
from srifty.training.share import Share
from srifty.training.waits import Waits


@dataclass
class Session:
    """One share, and how its worker adds numbers with the others.

    Attributes:
        share: of this worker.
        group: torch's process group; None for all processes, or where there is one alone.
        device: where numbers are added up, one that the group's library can send from; None for
            wherever they are.
        adder: returns the sum of a number over all workers and passes of the step; None for an
            allreduce of the workers', which knows one pass.
        passes_open: whether the passes of a step with several are being made.
        losses: how many losses were weighted so far.
        global_batch: samples of this step, all workers together; None for as many as planned.
        noted: the losses made in this step; None where nobody asks for them.
        awaits_steps: whether a `Run` was made that `steps` does not drive yet.
        waits: measures how long the gradients' exchange keeps this worker waiting; None where
            nothing can be measured.
    """

    share: Share
    group: Any = None
    device: Any = None
    adder: Callable[[Tensor], Tensor] | None = None
    passes_open: bool = False
    losses: int = 0
    global_batch: int | None = None
    noted: list[Tensor] | None = None
    awaits_steps: bool = False
    waits: Waits | None = None

    @property
    def needs_total_beforehand(self) -> bool:
        """Whether the items of one pass say too little: some worker makes several."""
        return self.adder is None and (self.passes_open or max(self.share.accumulations) > 1)

    def begin_step(self, global_batch: int) -> None:
        """Begins a step of so many samples, whose losses will be noted."""
        self.global_batch = None if global_batch == self.share.global_batch else global_batch
        self.noted = []

    def step_loss(self) -> Tensor | None:
        """Returns the sum of the losses made in this step; None if there were none."""
        return torch.stack(self.noted).sum() if self.noted else None

    def note(self, loss: Tensor) -> Tensor:
        """Returns a loss, once it is counted among the step's.

        Raises:
            InputError: there is a `Run`, and this is trained on beside it.
        """
        if self.awaits_steps:
            raise InputError(
                "this script makes a Run, but its batches do not come from steps, so nothing would "
                "be saved, logged or gone on with; write "
                "`for step, batch in st.steps(loader, run)`, or leave the Run out"
            )
        self.losses += 1
        if self.noted is not None:
            self.noted.append(loss.detach())
        return loss

    def add_up(self, count: Tensor) -> tuple[Tensor, Any]:
        """Returns a tensor that will hold the sum over all workers, and what to wait for."""
        if self.adder is not None:
            return self.adder(count), None
        if self.share.world_size == 1:
            return count, None
        return count, torch.distributed.all_reduce(lend(count), group=self.group, async_op=True)


_sessions: list[Session] = []


def session() -> Session:
    """Returns what `distribute` opened last, or a session of `current_share()`."""
    if not _sessions:
        _sessions.append(Session(current_share()))
    return _sessions[-1]


def expect_steps(share: Share) -> None:
    """Has losses fail until `steps` begins; `share` is that of a session yet to be opened."""
    if not _sessions:
        _sessions.append(Session(share))
    _sessions[-1].awaits_steps = True


def open_session(opened: Session) -> None:
    """Makes a session the process's."""
    _sessions[:] = [opened]


@contextmanager
def session_of(inner: Session) -> Generator[Session]:
    """Lets a session hold for a while; then the one before it holds again."""
    before = list(_sessions)
    _sessions[:] = [inner]
    try:
        yield inner
    finally:
        _sessions[:] = before
