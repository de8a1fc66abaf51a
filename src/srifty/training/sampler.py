"""The global batches of a training, dealt to unequal workers. Pure.

Global step k takes the same samples whatever the cluster: they are a function of the seed, the
dataset's length, the global batch and k. So a training can go on at any step, on any workers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sized
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from srifty.errors import InputError
from srifty.training.order import order_of
from srifty.training.share import Share

Remainder = Literal["drop", "keep", "wrap"]


class GlobalBatchSampler:
    """Deals each global batch of one seeded order to the workers by their shares.

    It is a DataLoader's `batch_sampler`: each item it yields lists the samples of one forward and
    backward pass of this worker. One iteration goes through the whole training, all epochs, each in
    an order of its own: there is no epoch to set, or to forget.

    Where an iteration begins is set by `start_at` alone; `steps()` calls it. What a DataLoader has
    fetched ahead therefore never counts as trained.

    Args:
        dataset: what has a length, or the length.
        share: of this worker.
        seed: of the order.
        epochs: passes over the dataset in the whole training; 1 if left out.
        steps: global steps in the whole training, instead of `epochs`.
        remainder: what becomes of the samples that are left when no whole global batch is: `drop`
            leaves them out of this epoch (another order leaves out others), `keep` makes a smaller
            batch of them, `wrap` fills it up with the first samples of the next epoch.
        shuffle: False for the order of the dataset.

    Raises:
        InputError: an argument is out of range, or no epoch has a step.
    """

    def __init__(
        self,
        dataset: Sized | int,
        share: Share,
        *,
        seed: int = 0,
        epochs: int | None = None,
        steps: int | None = None,
        remainder: Remainder = "drop",
        shuffle: bool = True,
    ) -> None:
        self.length = dataset if isinstance(dataset, int) else len(dataset)
        self.share = share
        self.seed = seed
        self.remainder: Remainder = remainder
        self.shuffle = shuffle
        self._check(epochs, steps)
        self.total_steps = self.first_step_of(epochs or 1) if steps is None else steps
        self._next = 0

    def _check(self, epochs: int | None, steps: int | None) -> None:
        if self.remainder not in get_args(Remainder):
            choices = ", ".join(get_args(Remainder))
            raise InputError(f"remainder must be one of {choices}, not {self.remainder!r}")
        if epochs is not None and steps is not None:
            raise InputError("give epochs or steps, not both: one follows from the other")
        for name, value in (("epochs", epochs), ("steps", steps)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be 1 or more, not {value}")
        if self.seed < 0:
            raise InputError(f"seed must not be negative, but is {self.seed}")
        if self.length < 1:
            raise InputError("the dataset has no samples")
        if self.remainder == "drop" and self.length < self.share.global_batch:
            raise InputError(
                f"the dataset's {self.length} samples are less than one global batch of "
                f'{self.share.global_batch}; use remainder="keep" or "wrap", or a smaller batch'
            )

    def epoch_of(self, step: int) -> int:
        """Returns the epoch in which a global step begins."""
        if self.remainder == "wrap":
            return step * self.share.global_batch // self.length
        return step // self.first_step_of(1)

    def first_step_of(self, epoch: int) -> int:
        """Returns the first global step that begins in an epoch."""
        batch = self.share.global_batch
        if self.remainder == "wrap":
            return -(-epoch * self.length // batch)
        if self.remainder == "keep":
            return epoch * -(-self.length // batch)
        return epoch * (self.length // batch)

    def size_at(self, step: int) -> int:
        """Returns the samples of a global step: the global batch, or a kept remainder."""
        batch = self.share.global_batch
        if self.remainder == "keep":
            return min(batch, self.length - step % self.first_step_of(1) * batch)
        return batch

    def global_batch_at(self, step: int) -> NDArray[np.int64]:
        """Returns the samples of a global step, all workers together."""
        return self._samples(step, slice(0, self.size_at(step)))

    def parts_at(self, step: int) -> tuple[slice, ...]:
        """Returns the places within a global step's samples of each of this worker's passes.

        A kept remainder is shared in proportion; a pass without samples is left out, except that a
        worker without any makes one empty pass, as the others wait for its gradients.
        """
        size, batch = self.size_at(step), self.share.global_batch
        if size == batch:
            return self.share.parts
        cut = [
            slice(part.start * size // batch, part.stop * size // batch)
            for part in self.share.parts
        ]
        return tuple(part for part in cut if part.start < part.stop) or (cut[0],)

    def samples_at(self, step: int) -> list[list[int]]:
        """Returns this worker's samples of a global step, a list for each of its passes."""
        return [self._samples(step, part).tolist() for part in self.parts_at(step)]

    def start_at(self, step: int) -> None:
        """Has the next iteration begin at a global step.

        Raises:
            InputError: the step lies outside the training.
        """
        if not 0 <= step <= self.total_steps:
            raise InputError(f"step {step} is outside this training of {self.total_steps} steps")
        self._next = step

    @property
    def next_step(self) -> int:
        """The global step that the next iteration begins with."""
        return self._next

    @property
    def identity(self) -> dict[str, int | str | bool]:
        """What must stay the same when a training goes on on other workers."""
        return {
            "samples": self.length,
            "global_batch": self.share.global_batch,
            "seed": self.seed,
            "remainder": self.remainder,
            "shuffle": self.shuffle,
        }

    @property
    def leaves_workers_idle(self) -> bool:
        """Whether some worker has no samples in the last step of an epoch."""
        size = self.size_at(self.first_step_of(1) - 1)
        share = self.share
        ends = itertools.accumulate(share.local_batches, initial=0)
        cut = [end * size // share.global_batch for end in ends]
        return any(first == last for first, last in itertools.pairwise(cut))

    def __iter__(self) -> Iterator[list[int]]:
        if self._next == self.total_steps:
            raise InputError(
                f"all {self.total_steps} steps of this training were dealt; one iteration goes "
                "through all epochs: give the sampler epochs=, and loop once"
            )
        for step in range(self._next, self.total_steps):
            yield from self.samples_at(step)
        self._next = self.total_steps

    def __len__(self) -> int:
        """Returns the number of passes in the next iteration."""
        steps = self.total_steps - self._next
        if self.remainder != "keep":
            return steps * self.share.accumulation
        # Only the last step of an epoch can have fewer passes.
        short = self.epoch_of(self.total_steps) - self.epoch_of(self._next)
        passes = len(self.parts_at(self.first_step_of(1) - 1))
        return (steps - short) * self.share.accumulation + short * passes

    def _samples(self, step: int, part: slice) -> NDArray[np.int64]:
        """Returns the samples at some places of a global step."""
        batch = self.share.global_batch
        if self.remainder == "wrap":
            epoch, place = divmod(step * batch + part.start, self.length)
        else:
            epoch, nth = divmod(step, self.first_step_of(1))
            place = nth * batch + part.start
        found: list[NDArray[np.int64]] = []
        wanted = part.stop - part.start
        while wanted > 0:
            end = min(place + wanted, self.length)
            places = np.arange(place, end, dtype=np.int64)
            order = order_of(self.length, self.seed, epoch) if self.shuffle else None
            found.append(places if order is None else order(places))
            wanted -= len(places)
            epoch, place = epoch + 1, 0
        return np.concatenate(found) if found else np.empty(0, np.int64)
