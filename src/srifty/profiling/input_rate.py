"""How many samples per second one vCPU of the user's loader delivers (torch)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from srifty.errors import InputError
from srifty.profiling.blame import blamed_on
from srifty.profiling.workload import batch_size_of

# A worker fills its queue while it is started: what lies ready then says nothing of its rate.
_FIRST_BATCHES = 4


@dataclass(frozen=True, slots=True)
class InputRate:
    """What the loader delivered.

    Attributes:
        samples_per_s_per_vcpu: with one worker process, which keeps about one vCPU busy.
        samples: how many were timed.
        seconds: over how long.
    """

    samples_per_s_per_vcpu: float
    samples: int
    seconds: float


def measure_input_rate(
    loader: Callable[[int], Iterable[Any]],
    source: str,
    *,
    seconds: float = 10.0,
    clock: Callable[[], float] = time.perf_counter,
) -> InputRate:
    """Returns the rate at which one worker process delivers samples.

    A loader that ends is begun anew, the time to do so included: so is each epoch of a training.
    Time is looked at between batches: a loader that takes longer than `seconds` for one ends late.

    Args:
        loader: number of workers → an iterable of batches.
        source: the workload, for messages.
        seconds: how long to watch.
        clock: seconds, for tests.

    Raises:
        InputError: the loader fails, gives nothing, or gives what holds no tensors.
    """
    with blamed_on(source, "running its loader with 1 worker"):
        batches = loader(1)
        opened_s = began_s = now_s = clock()
        seen = samples = before = 0
        while now_s - opened_s < seconds or seen == 0:
            epoch = 0
            for batch in batches:
                now_s = clock()
                epoch += 1
                size = batch_size_of(batch)
                if seen + epoch <= _FIRST_BATCHES and now_s - opened_s < seconds:
                    before += size
                    began_s = now_s
                else:
                    samples += size
                if now_s - opened_s >= seconds:
                    break
            if epoch == 0:
                raise InputError("its loader delivers no batch", source)
            seen += epoch
            now_s = clock()
    if samples == 0:  # too slow, or too few, for a rate after the first batches
        samples, began_s = before, opened_s
    return InputRate(samples / max(now_s - began_s, 1e-9), samples, now_s - began_s)
