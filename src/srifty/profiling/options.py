"""How a workload is profiled (torch)."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.errors import InputError
from srifty.profiling.placement import DEFAULT_PROBES
from srifty.profiling.steps import MOST_COMPILED, PRECISIONS, Precision


@dataclass(frozen=True)
class Options:
    """How to profile.

    Attributes:
        batch_sizes: to time; empty: they are chosen.
        max_batch: no larger one is run; None: until memory or time is out.
        probes: how many sizes are timed where they are chosen.
        precision: of the passes.
        compiled: whether the model goes through `torch.compile`.
        accumulation: passes before each optimizer step.
        isolate: whether every size is tried in a process of its own; None: on GPUs.
        gpu: the name that plans know the device by; None: the device's own.
        seconds: for all of it; nothing is begun later but a few steps without which there is no
            profile. Where sizes are compiled, or tried in processes of their own, the search for
            the largest gets so long again.
        error: standard error of the median step time that is good enough, as a fraction.
    """

    batch_sizes: tuple[int, ...] = ()
    max_batch: int | None = None
    probes: int = DEFAULT_PROBES
    precision: Precision = "fp32"
    compiled: bool = False
    accumulation: int = 1
    isolate: bool | None = None
    gpu: str | None = None
    seconds: float = 180.0
    error: float = 0.02

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.batch_sizes):
            raise InputError(f"batch sizes must be 1 or more, not {list(self.batch_sizes)}")
        if len(set(self.batch_sizes)) < len(self.batch_sizes):
            twice = max(self.batch_sizes, key=self.batch_sizes.count)
            raise InputError(f"{twice} is named twice", "--batch-sizes")
        self.require_sizes_below(self.max_batch, "--max-batch")
        if self.probes < 2:
            raise InputError(f"at least 2 batch sizes must be timed, not {self.probes}")
        if self.compiled and max(self.probes, len(self.batch_sizes)) > MOST_COMPILED:
            raise InputError(f"at most {MOST_COMPILED} batch sizes can be timed compiled")
        if self.precision not in PRECISIONS:
            raise InputError(f"precision must be {', '.join(PRECISIONS)}, not {self.precision!r}")
        if not (self.seconds > 0 and 0 < self.error < 1):
            raise InputError("seconds must be above 0, and the error a fraction between 0 and 1")

    def require_sizes_below(self, most: int | None, what: str) -> None:
        """Refuses sizes to time that are above a limit, before anything is measured.

        Args:
            most: the limit; None: none.
            what: its name, for people.

        Raises:
            InputError: some are; all of them are named.
        """
        above = [str(size) for size in self.batch_sizes if most is not None and size > most]
        if above:
            raise InputError(f"{', '.join(above)}: above {what} ({most})", "--batch-sizes")
