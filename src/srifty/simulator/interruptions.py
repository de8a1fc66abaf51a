"""What reclaimed VMs cost a job that saves now and then: closed forms.

VMs are taken away at a constant hazard λ, the sum over the spot VMs of a configuration. Training is
synchronous, so each loss stops all of it: what was done since the last checkpoint is done again,
after a recovery of R seconds (notice, launch, set-up, restore), which a further loss starts anew. A
stretch of s seconds that ends with a checkpoint is repeated N times, N geometric with success
e^{−λs}, so that its extra time, the sum of N times (X + Y), has

    E = (e^{λs} − 1)(E[X] + E[Y]),   Var = (e^{λs} − 1)(Var X + Var Y)
                                         + (e^{λs} − 1) e^{λs} (E[X] + E[Y])²

X is an exponential cut off at s, Y the time until R seconds pass without a loss; the hazard during
a recovery is its own, as a VM that is missing cannot be lost. Where both hazards are the same,
s + E is e^{λR} (e^{λs} − 1)/λ, the time of Daly 2006 ("A higher order estimate of the optimum
checkpoint interval for restart dumps"). Stretches are independent, so both moments add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw, ndtr, ndtri  # pyright: ignore[reportUnknownVariableType]

FloatArray = NDArray[np.float64]

# Exponents are cut off here: what lasts e^100 times as long never ends, but stays a number.
_MOST = 100.0
# Below it, differences of exponentials lose their digits and series take their place.
_SMALL = 1e-2
# Wilson and Hilferty's formula is off above it.
_MOST_SKEW = 4.0
_LEAST_SKEW = 1e-4
_BISECTIONS = 48


@dataclass(frozen=True)
class ExtraTime:
    """What losses add to stretches of a job, as arrays of any shape.

    Attributes:
        losses: how many are to be expected.
        mean_s: expected seconds.
        variance_s2: their variance.
    """

    losses: FloatArray
    mean_s: FloatArray
    variance_s2: FloatArray

    def __add__(self, other: ExtraTime) -> ExtraTime:
        """Returns what losses add to two stretches, which are independent."""
        return ExtraTime(
            self.losses + other.losses,
            self.mean_s + other.mean_s,
            self.variance_s2 + other.variance_s2,
        )

    def times(self, count: FloatArray) -> ExtraTime:
        """Returns what losses add to as many stretches."""
        return ExtraTime(count * self.losses, count * self.mean_s, count * self.variance_s2)


def extra_time(
    hazard_per_s: FloatArray,
    length_s: FloatArray,
    recovery_s: float,
    recovery_hazard_per_s: FloatArray,
) -> ExtraTime:
    """Returns what losses add to a stretch between two checkpoints.

    Args:
        hazard_per_s: losses per second while training goes on.
        length_s: seconds of the stretch, the checkpoint at its end included.
        recovery_s: seconds after a loss until work goes on.
        recovery_hazard_per_s: losses per second meanwhile.
    """
    a = np.minimum(hazard_per_s * length_s, _MOST)
    r = np.minimum(recovery_hazard_per_s * recovery_s, _MOST)
    again = np.expm1(a)
    lost_s = length_s * _cut_mean(a) + recovery_s * _renewal_mean(r)
    spread = length_s**2 * _cut_variance(a) + recovery_s**2 * _renewal_variance(r)
    return ExtraTime(again * np.exp(r), again * lost_s, again * (spread + np.exp(a) * lost_s**2))


def best_interval_s(hazard_per_s: FloatArray, save_s: float) -> FloatArray:
    """Returns the work between two checkpoints that makes the expected time shortest.

    The minimum of Daly's e^{λR} (e^{λ(τ+δ)} − 1)/(λτ) over τ solves (1 − λτ) e^{λ(τ+δ)} = 1, so
    λτ = 1 + W(−e^{−1−λδ}) with Lambert's W (Bougeret et al. 2011, "Checkpointing strategies for
    parallel jobs", theorem 1). For λδ → 0 it is Young's √(2δ/λ).

    Args:
        hazard_per_s: losses per second, above 0.
        save_s: seconds δ of one checkpoint.
    """
    delta = np.minimum(hazard_per_s * save_s, _MOST)
    exact = 1.0 + np.real(lambertw(-np.exp(-1.0 - delta)))
    # Near the branch point the sum loses its digits: its series in √(2δ) takes its place.
    root = np.sqrt(2 * delta)
    series = root * (1 - root / 3 + root**2 / 36 + root**3 / 270)
    return np.where(delta < 1e-6, series, exact) / hazard_per_s


def _cut_mean(a: FloatArray) -> FloatArray:
    """Mean of an exponential of rate a, given that it is below 1."""
    safe = np.maximum(a, _SMALL)
    return np.where(a < _SMALL, 0.5 - a / 12 + a**3 / 720, 1 / safe - 1 / np.expm1(safe))


def _cut_variance(a: FloatArray) -> FloatArray:
    """Variance of an exponential of rate a, given that it is below 1."""
    safe = np.maximum(a, _SMALL)
    series = 1 / 12 - a**2 / 240 + a**4 / 6048
    return np.where(a < _SMALL, series, 1 / safe**2 - 0.25 / np.sinh(safe / 2) ** 2)


def _renewal_mean(r: FloatArray) -> FloatArray:
    """Mean time until an interval of length 1 passes without an event of rate r."""
    safe = np.maximum(r, 1e-12)
    return np.where(r < 1e-12, 1.0, np.expm1(safe) / safe)


def _renewal_variance(r: FloatArray) -> FloatArray:
    """Variance of the time until an interval of length 1 passes without an event of rate r."""
    safe = np.maximum(r, _SMALL)
    series = r / 3 + r**2 / 3 + r**3 * (11 / 60) + r**4 * (13 / 180)
    exact = (np.exp(2 * safe) - 1 - 2 * safe * np.exp(safe)) / safe**2
    return np.where(r < _SMALL, series, exact)


@dataclass(frozen=True)
class MixedLaw:
    """The law of a job's time: undisturbed with some chance, else later and skewed.

    A job that loses no VM lasts a normal time. One that does lasts longer: three moments of its
    time are kept, as a shifted gamma (Pearson III), whose distribution function is that of Wilson
    and Hilferty 1931. It is never earlier than the undisturbed one.

    Attributes:
        none_probability: (R,) chance of no loss.
        mean_s: (R,) undisturbed mean.
        std_s: (R,) undisturbed standard deviation.
        late_mean_s: (R,) mean, given a loss.
        late_std_s: (R,) standard deviation, given a loss.
        late_skew: (R,) skewness, given a loss.
    """

    none_probability: FloatArray
    mean_s: FloatArray
    std_s: FloatArray
    late_mean_s: FloatArray
    late_std_s: FloatArray
    late_skew: FloatArray

    @property
    def total_mean_s(self) -> FloatArray:
        """(R,) mean, losses or not."""
        return self.mean_s + (1 - self.none_probability) * (self.late_mean_s - self.mean_s)

    @property
    def total_std_s(self) -> FloatArray:
        """(R,) standard deviation, losses or not."""
        none = self.none_probability
        gap_s = self.late_mean_s - self.mean_s
        within = none * self.std_s**2 + (1 - none) * self.late_std_s**2
        return np.sqrt(within + none * (1 - none) * gap_s**2)

    def probability(self, time_s: FloatArray) -> FloatArray:
        """Returns (R,) the chance that the job ends within the given times."""
        least = 1e-12 * np.maximum(self.mean_s, 1.0)  # a step, where nothing is uncertain
        early = ndtr((time_s - self.mean_s) / np.maximum(self.std_s, least))
        skew = np.clip(self.late_skew, _LEAST_SKEW, _MOST_SKEW)
        z = (time_s - self.late_mean_s) / np.maximum(self.late_std_s, least)
        cube = np.cbrt(np.maximum(1 + z * skew / 2, 0.0))
        late = ndtr((cube - 1 + skew**2 / 36) * 6 / skew)
        share = self.none_probability
        return share * early + (1 - share) * np.minimum(late, early)

    def quantile_s(self, probability: float) -> FloatArray:
        """Returns (R,) the times within which the job ends with the given chance."""
        z = float(ndtri(probability))
        skew = np.clip(self.late_skew, _LEAST_SKEW, _MOST_SKEW)
        cube = np.maximum(1 - skew**2 / 36 + z * skew / 6, 0.0)
        late = self.late_mean_s + self.late_std_s * (2 / skew) * (cube**3 - 1)
        low = self.mean_s + z * self.std_s
        high = np.maximum(low, late)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            enough = self.probability(middle) >= probability
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high
