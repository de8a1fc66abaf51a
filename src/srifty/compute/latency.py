"""The latency model of one workload on one GPU model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srifty.compute.fit import fit_latency, residual_fraction
from srifty.compute.knee import knee
from srifty.compute.piecewise import PiecewiseLinear
from srifty.core.profile import WorkloadProfile

FloatArray = NDArray[np.float64]

# Where a profile holds only iteration times: a backward pass computes two gradients (of weights and
# of inputs) for every product of the forward pass.
_FORWARD_SHARE = 1 / 3
# Where a profile holds no spread. Step to step: within-run spreads of public single-GPU logs lie
# between 0.1 and 3 %. Between GPUs of one type: 760 T4 VMs spread over a factor of 1.1 (Luo et al.
# 2022, figure 2), which is about ±2 %.
_DEFAULT_STEP_STD = 0.02
_DEFAULT_SPATIAL_STD = 0.02
SPATIAL_UNKNOWN = (
    f"the spread between GPUs was not measured; {_DEFAULT_SPATIAL_STD:.0%} is assumed."
)
# A 90 % interval of a normal is ±1.645 standard deviations.
_STD_PER_INTERVAL_90 = 1 / 1.645
# Half width of the 90 % interval of estimated latencies that state none.
_ESTIMATED_INTERVAL = 0.3
# More samples in so much less time is a mistake rather than noise.
_SUSPICIOUS_FALL = 0.25


@dataclass(frozen=True)
class LatencyModel:
    """Forward and backward latency of a workload on one GPU as functions of the micro-batch.

    Attributes:
        workload: the workload's name.
        gpu: name of the GPU model.
        forward: seconds of a forward pass by micro-batch.
        backward: seconds of a backward pass by micro-batch.
        optimizer_s: seconds of an optimizer step, where it is not part of the passes.
        step_std_fraction: spread from step to step, as a fraction of the latency.
        spatial_std_fraction: spread between GPUs of one type, likewise.
        model_std_fraction: standard deviation of the model's error, likewise.
        knee_batch: where latency-bound turns into throughput-bound: the least useful micro-batch.
        min_batch: smallest usable micro-batch.
        max_batch: largest micro-batch that fits in memory.
        estimated: whether the latencies were estimated rather than measured.
        assumptions: what the model takes for granted, clauses that end with a full stop.
        measured_batches: smallest and largest micro-batch that the latencies come from.
        contention_fraction: by which a worker is slower among several than alone: a shared host, a
            loader that does not keep up.
    """

    workload: str
    gpu: str
    forward: PiecewiseLinear
    backward: PiecewiseLinear
    optimizer_s: float
    step_std_fraction: float
    spatial_std_fraction: float
    model_std_fraction: float
    knee_batch: int
    min_batch: int
    max_batch: int
    estimated: bool
    assumptions: tuple[str, ...]
    measured_batches: tuple[int, int] = (1, 1 << 62)
    contention_fraction: float = 0.0

    @classmethod
    def fit(cls, profile: WorkloadProfile) -> LatencyModel:
        """Returns the model of a profile."""
        batches = np.array([latency.batch for latency in profile.latencies], dtype=np.float64)
        steps = np.array([latency.step_s for latency in profile.latencies])
        whole = fit_latency(batches, steps)
        assumptions: list[str] = []
        if profile.is_split:
            forward = fit_latency(
                batches, np.array([latency.forward_s for latency in profile.latencies], dtype=float)
            )
            backward = fit_latency(
                batches,
                np.array([latency.backward_s for latency in profile.latencies], dtype=float),
            )
            measured = [
                latency.optimizer_s
                for latency in profile.latencies
                if latency.optimizer_s is not None
            ]
            optimizer_s = float(np.median(measured)) if measured else 0.0
            if not measured:
                assumptions.append("the optimizer step was not measured; taken as 0.")
        else:
            forward = whole.scaled(_FORWARD_SHARE)
            backward = whole.scaled(1 - _FORWARD_SHARE)
            optimizer_s = 0.0
            assumptions.append(
                "only iteration times are known; a third is taken as forward, two thirds as "
                "backward, the optimizer step within."
            )
        spreads = [
            latency.std_s / latency.step_s
            for latency in profile.latencies
            if latency.std_s is not None
        ]
        step_std = float(np.median(spreads)) if spreads else _DEFAULT_STEP_STD
        if not spreads:
            assumptions.append(
                f"the spread from step to step was not measured; {_DEFAULT_STEP_STD:.0%} is "
                "assumed."
            )
        spatial_std = profile.spatial_std_fraction
        if spatial_std is None:
            spatial_std = _DEFAULT_SPATIAL_STD
            assumptions.append(SPATIAL_UNKNOWN)
        model_std = residual_fraction(batches, steps)
        interval = profile.interval_fraction or (_ESTIMATED_INTERVAL if profile.estimated else 0.0)
        model_std = max(model_std, interval * _STD_PER_INTERVAL_90)
        if len(steps) == 1:
            assumptions.append("one batch size is known; 30% of its latency is taken as fixed.")
        fall = steps[:-1] / steps[1:] - 1
        if len(fall) and fall.max() > _SUSPICIOUS_FALL:
            at = int(fall.argmax())
            assumptions.append(
                f"{profile.latencies[at + 1].batch} samples take less time than "
                f"{profile.latencies[at].batch}: check the measurements."
            )
        if profile.estimated:
            assumptions.append("latencies are estimated, not measured.")
        if profile.max_batch_evidence != "measured":
            known = "estimated" if profile.max_batch_evidence == "estimated" else "largest tried"
            assumptions.append(f"at most {profile.max_batch} samples per pass ({known}).")
        return cls(
            workload=profile.workload,
            gpu=profile.gpu,
            forward=forward,
            backward=backward,
            optimizer_s=optimizer_s,
            step_std_fraction=step_std,
            spatial_std_fraction=spatial_std,
            model_std_fraction=model_std,
            knee_batch=_useful_batch(whole, profile),
            min_batch=profile.min_batch,
            max_batch=profile.max_batch,
            estimated=profile.estimated,
            assumptions=tuple(assumptions),
            measured_batches=(profile.latencies[0].batch, profile.latencies[-1].batch),
        )

    @property
    def total_std_fraction(self) -> float:
        """Spread of one worker's step time, over steps and GPUs."""
        return (self.step_std_fraction**2 + self.spatial_std_fraction**2) ** 0.5

    def step_s(self, micro_batch: FloatArray) -> FloatArray:
        """Returns seconds of one forward and backward pass and the optimizer step."""
        return (
            self.forward.predict(micro_batch)
            + self.backward.predict(micro_batch)
            + (self.optimizer_s)
        )


def _useful_batch(curve: PiecewiseLinear, profile: WorkloadProfile) -> int:
    """Returns the knee; the smallest usable batch where the measurements do not reach below it."""
    batch = int(knee(curve))
    if batch <= profile.latencies[0].batch:
        return profile.min_batch
    return min(max(batch, profile.min_batch), profile.max_batch)
