"""The link's factors that observed iteration times support, starting from what is usual.

Maximum a posteriori: normal priors on the parameters, errors of log t with heavy tails (the
pseudo-Huber loss), solved by reweighted, damped Gauss-Newton steps from two starts. The rows of one
workload err together (its latency curve, its gradient order): however many there are, they count as
a few independent ones, and each workload counts the same.
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
_MOST_DAMPING = 1e6
_ENOUGH = 1e-8
# The second start: links that are slower by so many of the prior's standard deviations.
_SLOW_LINK, _SLOW_STDS = LinkFactors(between=1.0, inside=1.0), 2.0


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
        slowdown: by which several workers compute slower than one alone, a fraction.
        slowdown_std: of that; it is never below 0.
    """

    mean: LinkFactors = field(default_factory=lambda: LinkFactors(per_log_vms=0.14))
    std: LinkFactors = field(default_factory=lambda: LinkFactors(1.0, 0.4, 0.3, 0.1, 1.0))
    spread: float = 0.03
    log_spread_std: float = 0.7
    effect_std: float = 0.2
    guessed_effect_std: float = 1.0
    slowdown: float = 0.03
    slowdown_std: float = 0.2


@dataclass(frozen=True)
class Posterior:
    """The most probable parameters, and what is left open.

    Attributes:
        factors: of the link.
        spread: between workers of one iteration, a fraction of the computation.
        effects: (W,) of each workload; 0 for those without a row.
        slowdowns: (W,) by which several workers of a workload compute slower than one alone, a
            fraction.
        covariances: (W + 1, P + 1, P + 1) of the factors and a workload's effect, by workload; the
            last is that of a workload which was not observed.
    """

    factors: LinkFactors
    spread: float
    effects: FloatArray
    slowdowns: FloatArray
    covariances: FloatArray


def most_probable(rows: Rows, size_known: NDArray[np.bool_], prior: LinkPrior) -> Posterior:
    """Returns the parameters that explain the rows best.

    Args:
        rows: R observations.
        size_known: (W,) whether each workload's gradient size is known.
        prior: what is usual.
    """
    workloads = len(size_known)
    effect_std = np.where(size_known, prior.effect_std, prior.guessed_effect_std)
    usual = [prior.slowdown] * workloads
    spreads = [prior.slowdown_std] * workloads
    mean = np.array([*astuple(prior.mean), np.log(prior.spread), *np.zeros(workloads), *usual])
    std = np.array([*astuple(prior.std), prior.log_spread_std, *effect_std, *spreads])
    counts = np.bincount(rows.workload, minlength=workloads)
    independent = np.minimum(counts, _ROWS_PER_WORKLOAD)
    weight = (independent / np.maximum(counts, 1))[rows.workload] / _ROW_ERROR**2
    likely = _Likely(rows, workloads, weight, mean, 1 / np.square(std))
    # Transfers that computation hides have no slope: with fast links alone to start from, a slow
    # one that is hidden on the way would never be found.
    count = rows.features.shape[1]
    slow = mean.copy()
    slow[:count] += _SLOW_STDS * std[:count] * np.array(astuple(_SLOW_LINK))
    found = min((likely.climb(start) for start in (mean, slow)), key=lambda one: one.loss)
    at = found.at
    return Posterior(
        LinkFactors(*(float(value) for value in at[:count])),
        float(np.exp(at[count])),
        at[count + 1 : count + 1 + workloads],
        np.maximum(at[count + 1 + workloads :], 0.0),
        _of_links(found.curvature, count, workloads, prior),
    )


@dataclass(frozen=True)
class _Top:
    """Where a climb ends: parameters, their loss and its curvature (half of its second slopes)."""

    at: FloatArray
    loss: float
    curvature: FloatArray


@dataclass(frozen=True)
class _Likely:
    """How likely parameters are: minus twice a logarithm, to be made small.

    Attributes:
        rows: R observations.
        workloads: how many there are.
        weight: (R,) of each row.
        mean: (P,) of the prior.
        precision: (P,) of the prior.
    """

    rows: Rows
    workloads: int
    weight: FloatArray
    mean: FloatArray
    precision: FloatArray

    def loss(self, error: FloatArray, at: FloatArray) -> float:
        """Returns the loss of parameters with these errors."""
        tails = 2 * _TAIL**2 * (np.sqrt(1 + np.square(error / _TAIL)) - 1)
        return float(self.weight @ tails + self.precision @ np.square(at - self.mean))

    def curvature(self, error: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns (R,) how much each error is trusted, and the loss's curvature."""
        trusted = self.weight / np.sqrt(1 + np.square(error / _TAIL))
        return trusted, (slopes.T * trusted) @ slopes + np.diag(self.precision)

    def climb(self, start: FloatArray) -> _Top:
        """Returns the next top: reweighted, damped Gauss-Newton steps."""
        at = start
        error, slopes = _errors(self.rows, at, self.workloads)
        best = self.loss(error, at)
        damping = 1e-3
        for _ in range(_MOST_STEPS):
            trusted, curvature = self.curvature(error, slopes)
            downhill = -(slopes.T @ (trusted * error) + self.precision * (at - self.mean))
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), downhill)
            there = at + step
            new_error, new_slopes = _errors(self.rows, there, self.workloads)
            new = self.loss(new_error, there)
            if not new < best:
                damping *= 10
                if damping > _MOST_DAMPING:
                    break
                continue
            gained = best - new
            at, error, slopes, best = there, new_error, new_slopes, new
            damping = max(damping / 10, 1e-9)
            if gained < _ENOUGH * best:
                break
        return _Top(at, best, self.curvature(error, slopes)[1])


def _of_links(curvature: FloatArray, count: int, workloads: int, prior: LinkPrior) -> FloatArray:
    """Returns what is left open of each workload's link; see `Posterior.covariances`."""
    # Laplace's: near its top the posterior is taken for a normal.
    covariance = np.linalg.inv(curvature)
    found = np.zeros((workloads + 1, count + 1, count + 1))
    for index in range(workloads):
        which = [*range(count), count + 1 + index]
        found[index] = covariance[np.ix_(which, which)]
    found[-1, :count, :count] = covariance[:count, :count]
    found[-1, count, count] = prior.effect_std**2
    return found


def _errors(rows: Rows, at: FloatArray, workloads: int) -> tuple[FloatArray, FloatArray]:
    """Returns (R,) log(predicted / measured) and (R, P) its slopes in the parameters."""
    count = rows.features.shape[1]
    index = np.arange(len(rows))
    effects, slowdowns = at[count + 1 :].reshape(2, workloads)
    factor = np.exp(rows.features @ at[:count] + effects[rows.workload])
    spread = np.exp(at[count])
    slowdown = np.maximum(slowdowns, 0.0)[rows.workload]
    noise = 1 + spread * rows.slowest
    stretch = noise * (1 + slowdown)
    ends = stretch[:, None] * rows.ready_s + rows.latency_s + factor[:, None] * rows.transfer_s
    last = ends.argmax(axis=1)
    end_s = ends[index, last]
    compute_s = stretch * rows.compute_s
    exposed = end_s > compute_s
    predicted_s = np.where(exposed, end_s, compute_s) + rows.optimizer_s
    by_factor = np.where(exposed, factor * rows.transfer_s[index, last], 0.0)
    stretched_s = np.where(exposed, rows.ready_s[index, last], rows.compute_s)
    slopes = np.zeros((len(rows), count + 1 + 2 * workloads))
    slopes[:, :count] = by_factor[:, None] * rows.features
    slopes[:, count] = spread * rows.slowest * (1 + slowdown) * stretched_s
    slopes[index, count + 1 + rows.workload] = by_factor
    by_slowdown = np.where(slowdowns > 0, 1.0, 0.0)[rows.workload] * noise * stretched_s
    slopes[index, count + 1 + workloads + rows.workload] = by_slowdown
    return np.log(predicted_s / rows.measured_s), slopes / predicted_s[:, None]
