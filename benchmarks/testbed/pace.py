"""How long a GPU of the bed takes for a pass: public single-GPU curves. Pure.

M60, T4 and V100: the step times in Srifty's sample profiles, which come from public measurements,
or are estimated where nobody published any (each file names its source), interpolated between the
batch sizes. K80: the V100's times the ratio of both in one public log (BERT, batch 32:
VirtualFlow's logs, andrewor14/tf-logs @dd5f2c57). T4x8, M60x8: GPUs that take eight times as long,
for worlds of so many ranks that two cores must not set their pace.
The bed is a test of the mechanism: what matters is that the paces differ as GPUs do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.testbed.layers import SCALE, layers_of
from srifty.files.profile_file import builtin_profiles

GPUS = ("K80", "M60", "M60x8", "T4", "T4x8", "V100")
SLOW = 8.0
# GPU → the one whose curve it has, and how much longer it takes.
DERIVED = {"K80": ("V100", 1368.3 / 259.8), "M60x8": ("M60", SLOW), "T4x8": ("T4", SLOW)}
# A backward pass computes two gradients for every product of the forward pass.
FORWARD_SHARE = 1 / 3
# Momentum: gradient and weight are read, weight and momentum written; bytes per second of memory
# from the data sheets.
_OPTIMIZER_BYTES = 16
_MEMORY = {
    "K80": 240e9, "M60": 160e9, "M60x8": 160e9 / SLOW, "T4": 320e9, "T4x8": 320e9 / SLOW,
    "V100": 900e9,
}  # fmt: skip
# What of a latency does not fall with the batch, below the smallest one that was published.
_FIXED = 0.3
_SAMPLES = {"resnet18": "resnet18-cifar"}


@dataclass(frozen=True)
class Pace:
    """What a GPU needs for one model.

    Attributes:
        batches: ascending batch sizes of the curve.
        step_s: seconds of forward and backward pass at those.
        optimizer_s: seconds of an optimizer step.
    """

    batches: tuple[float, ...]
    step_s: tuple[float, ...]
    optimizer_s: float

    def passes_s(self, batch: int) -> float:
        """Returns the seconds of forward and backward pass together.

        Between the sizes of the curve linear; beyond them by the last slope; below them three
        tenths of the first stay, the rest falls with the batch.
        """
        if batch < self.batches[0]:
            return self.step_s[0] * (_FIXED + (1 - _FIXED) * batch / self.batches[0])
        if batch > self.batches[-1] and len(self.batches) > 1:
            slope = (self.step_s[-1] - self.step_s[-2]) / (self.batches[-1] - self.batches[-2])
            return self.step_s[-1] + slope * (batch - self.batches[-1])
        return float(np.interp(batch, self.batches, self.step_s))


@cache
def pace_of(model: str, gpu: str) -> Pace:
    """Returns the pace of a GPU for a model of `layers`."""
    source, factor = DERIVED.get(gpu, (gpu, 1.0))
    profile = next(p for p in builtin_profiles(_SAMPLES.get(model, model)) if p.gpu == source)
    elements = SCALE * sum(layer.elements for layer in layers_of(model))
    return Pace(
        tuple(float(latency.batch) for latency in profile.latencies),
        tuple(factor * latency.step_s for latency in profile.latencies),
        elements * _OPTIMIZER_BYTES / _MEMORY[gpu],
    )


@cache
def largest_batch(model: str, gpu: str) -> int:
    """Returns the largest batch that a GPU's memory holds, by the sample profile."""
    source, _ = DERIVED.get(gpu, (gpu, 1.0))
    samples = builtin_profiles(_SAMPLES.get(model, model))
    return next(profile.max_batch for profile in samples if profile.gpu == source)
