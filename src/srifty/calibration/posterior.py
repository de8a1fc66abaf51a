"""The link's factors that observed iteration times support, starting from what is usual.

Maximum a posteriori: normal priors on the parameters, errors of log t with heavy tails (the
pseudo-Huber loss), solved by reweighted, damped Gauss-Newton steps. The rows of one workload err
together (its latency curve, its gradient order): however many there are, they count as a few
independent ones, and each workload counts the same.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

import numpy as np
from numpy.typing import NDArray

from srifty.calibration.link import LinkFactors
from srifty.calibration.rows import Rows

FloatArray = NDArray[np.float64]

# One row's error, and for how many independent rows one workload counts: repeats of one
# configuration differ by 5 to 10 %, and errors run through all batch sizes of a placement.
_ROW_ERROR = 0.10
_ROWS_PER_WORKLOAD = 10.0
# Errors beyond this count linearly.
_TAIL = 0.05
_MOST_STEPS = 60
_ENOUGH = 1e-8


@dataclass(frozen=True, slots=True)
class LinkPrior:
    """What is usual before anything was observed: mean and standard deviation of each parameter.

    Attributes:
        mean: of the factors.
        std: of the factors. A link of a type that was never measured is known to a factor of e;
            the growth with the number of VMs is the mean of public nccl-tests logs at 16 MiB and
            more (GCP V100 0.22, p5 0.25, ABCI V100 0.20 and A100 0.19, Polaris 0.14, p3dn -0.19).
        spread: between workers of one iteration, a fraction.
        log_spread_std: of its logarithm.
        effect_std: of a workload's effect.
        guessed_effect_std: the same where the size of its gradients is a guess.
    """

    mean: LinkFactors = field(default_factory=lambda: LinkFactors(per_log_vms=0.14))
    std: LinkFactors = field(default_factory=lambda: LinkFactors(1.0, 0.4, 0.3, 0.1, 1.0))
    spread: float = 0.03
    log_spread_std: float = 0.7
    effect_std: float = 0.2
    guessed_effect_std: float = 1.0


@dataclass(frozen=True)
class Posterior:
    """The most probable parameters.

    Attributes:
        factors: of the link.
        spread: between workers of one iteration, a fraction of the computation.
        effects: (W,) of each workload; 0 for those without a row.
    """

    factors: LinkFactors
    spread: float
    effects: FloatArray


def most_probable(rows: Rows, size_known: NDArray[np.bool_], prior: LinkPrior) -> Posterior:
    """Returns the parameters that explain the rows best.

    Args:
        rows: R observations.
        size_known: (W,) whether each workload's gradient size is known.
        prior: what is usual.
    """
    workloads = len(size_known)
    effect_std = np.where(size_known, prior.effect_std, prior.guessed_effect_std)
    mean = np.array([*astuple(prior.mean), np.log(prior.spread), *np.zeros(workloads)])
    precision = 1 / np.square([*astuple(prior.std), prior.log_spread_std, *effect_std])
    counts = np.bincount(rows.workload, minlength=workloads)
    independent = np.minimum(counts, _ROWS_PER_WORKLOAD)
    weight = (independent / np.maximum(counts, 1))[rows.workload] / _ROW_ERROR**2

    def loss(error: FloatArray, at: FloatArray) -> float:
        tails = 2 * _TAIL**2 * (np.sqrt(1 + np.square(error / _TAIL)) - 1)
        return float(weight @ tails + precision @ np.square(at - mean))

    at = mean
    error, slopes = _errors(rows, at, workloads)
    best = loss(error, at)
    damping = 1e-3
    for _ in range(_MOST_STEPS):
        trusted = weight / np.sqrt(1 + np.square(error / _TAIL))
        curvature = (slopes.T * trusted) @ slopes + np.diag(precision)
        downhill = -(slopes.T @ (trusted * error) + precision * (at - mean))
        step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), downhill)
        there = at + step
        new_error, new_slopes = _errors(rows, there, workloads)
        new = loss(new_error, there)
        if not new < best:
            damping *= 10
            if damping > 1e6:
                break
            continue
        gained = best - new
        at, error, slopes, best = there, new_error, new_slopes, new
        damping = max(damping / 10, 1e-9)
        if gained < _ENOUGH * best:
            break
    count = rows.features.shape[1]
    return Posterior(
        LinkFactors(*(float(value) for value in at[:count])),
        float(np.exp(at[count])),
        at[count + 1 :],
    )


def _errors(rows: Rows, at: FloatArray, workloads: int) -> tuple[FloatArray, FloatArray]:
    """Returns (R,) log(predicted / measured) and (R, P) its slopes in the parameters."""
    count = rows.features.shape[1]
    index = np.arange(len(rows))
    factor = np.exp(rows.features @ at[:count] + at[count + 1 :][rows.workload])
    spread = np.exp(at[count])
    stretch = 1 + spread * rows.slowest
    ends = stretch[:, None] * rows.ready_s + rows.latency_s + factor[:, None] * rows.transfer_s
    last = ends.argmax(axis=1)
    end_s = ends[index, last]
    compute_s = stretch * rows.compute_s
    exposed = end_s > compute_s
    predicted_s = np.where(exposed, end_s, compute_s) + rows.optimizer_s
    by_factor = np.where(exposed, factor * rows.transfer_s[index, last], 0.0)
    stretched_s = np.where(exposed, rows.ready_s[index, last], rows.compute_s)
    slopes = np.zeros((len(rows), count + 1 + workloads))
    slopes[:, :count] = by_factor[:, None] * rows.features
    slopes[:, count] = spread * rows.slowest * stretched_s
    slopes[index, count + 1 + rows.workload] = by_factor
    return np.log(predicted_s / rows.measured_s), slopes / predicted_s[:, None]
