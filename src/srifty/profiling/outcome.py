"""What one trial of a batch size gave, and which sizes may be tried at all. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from srifty.core._checks import require_count

DEFAULT_MOST = 65_536
"""The largest batch that is tried where neither the data set nor anybody sets a smaller one."""


class Verdict(Enum):
    """What a trial of a batch size came to."""

    FITS = "fits"
    OUT_OF_MEMORY = "out of memory"
    OUT_OF_HOST_MEMORY = "out of memory on the host"
    TOO_SMALL = "too few samples"
    OTHER_ERROR = "other error"
    TOO_SLOW = "too slow"
    NOT_TRIED = "not tried"

    @property
    def is_memory(self) -> bool:
        """Whether a smaller batch may well fit."""
        return self in _MEMORY

    @property
    def is_tried_again(self) -> bool:
        """Whether another run may come to something else: the user's code, or the time given."""
        return self in (Verdict.OTHER_ERROR, Verdict.TOO_SLOW)


_MEMORY = frozenset({Verdict.OUT_OF_MEMORY, Verdict.OUT_OF_HOST_MEMORY, Verdict.NOT_TRIED})


@dataclass(frozen=True, slots=True)
class Outcome:
    """One batch size, tried.

    Attributes:
        batch: samples in each forward and backward pass.
        verdict: what it came to.
        message: why, where it does not fit; the error as it was raised.
        steps: full steps that were done at exactly this batch.
        seconds: what the trial took, start-up included.
        peak_bytes: most memory of the device in use during the steps; None where not measured.
        peak_spread: half-range of the steps' own peaks after warm-up, (max - min) / (max + min).
        host_peak_bytes: most memory of the host that the trial's process had; None: not measured.
        held_bytes: memory of the device in use before the trial.
        finite: whether the last loss was a number, neither nan nor infinite.
    """

    batch: int
    verdict: Verdict
    message: str = ""
    steps: int = 0
    seconds: float = 0.0
    peak_bytes: int | None = None
    peak_spread: float = 0.0
    host_peak_bytes: int | None = None
    held_bytes: int | None = None
    finite: bool = True

    @property
    def fits(self) -> bool:
        """Whether all steps were done."""
        return self.verdict is Verdict.FITS

    @property
    def sentence(self) -> str:
        """What happened, for people: `other error at 65,536: RuntimeError: ...`."""
        # Which allocation found no room says nothing that "out of memory" does not.
        told = self.message and self.verdict is not Verdict.OUT_OF_MEMORY
        why = f": {self.message}" if told else ""
        return f"{self.verdict.value} at {self.batch:,}{why}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What limits the batches that are tried; None: unknown or not limited.

    Attributes:
        global_batch: samples per iteration over all GPUs.
        dataset_size: samples in the data set.
        user: the user's own cap.
        memory_bytes: the device's memory.
        host_memory_bytes: what a trial's process may have of the host's memory.
    """

    global_batch: int | None = None
    dataset_size: int | None = None
    user: int | None = None
    memory_bytes: int | None = None
    host_memory_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("global_batch", "dataset_size", "user"):
            value: int | None = getattr(self, name)
            if value is not None:
                require_count(name, value)

    @property
    def most(self) -> int:
        """The largest batch that may be tried."""
        return self._least[0]

    @property
    def most_from(self) -> str:
        """What sets it, for people."""
        return self._least[1]

    @property
    def _least(self) -> tuple[int, str]:
        limits = (
            (self.user, "the cap that was asked for"),
            (self.global_batch, "the global batch"),
            (self.dataset_size, "the size of the data set"),
        )
        known = [(limit, name) for limit, name in limits if limit is not None]
        default = (
            DEFAULT_MOST,
            "where the search ends unless a cap, global batch or data set is given",
        )
        return min(known or [default], key=lambda pair: pair[0])
