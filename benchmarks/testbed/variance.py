"""Variance to inject: how one VM differs from the next of its type, and one step from the next.

The bed itself repeats a run to about 0.1 %, which no cloud does. Four things vary: the pace of
compute and the rate of the link, each between allocations and within one. Spreads come from public
measurements where they are at hand, else from the parameters stated in `STATED`. Pure; draws
take a generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Variation:
    """Measured spreads to draw from; every draw takes one value of a list at random.

    Attributes:
        compute_between: times of VMs of one type, each divided by the type's median.
        compute_within: log standard deviations of the step times of one VM.
        link_between: rates of links of one type, each divided by the type's median.
        link_within: log standard deviations of the rate of one link.
        sources: where each list comes from, a line each, in that order.
    """

    compute_between: tuple[float, ...]
    compute_within: tuple[float, ...]
    link_between: tuple[float, ...]
    link_within: tuple[float, ...]
    sources: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("compute_between", "link_between"):
            if not (values := getattr(self, name)) or min(values) <= 0:
                raise ValueError(f"{name}: give at least one factor, all above 0")
        for name in ("compute_within", "link_within"):
            if not (values := getattr(self, name)) or min(values) < 0:
                raise ValueError(f"{name}: give at least one deviation, all of at least 0")


@dataclass(frozen=True)
class Pace:
    """What one allocated VM is like.

    Attributes:
        compute_factor: its step times over its type's, above 0; 1.1 is a slow one.
        compute_sd: log standard deviation of its step times.
        link_factor: its link's rate over its type's, above 0; 0.9 is a slow one.
        link_sd: log standard deviation of its link's rate.
    """

    compute_factor: float
    compute_sd: float
    link_factor: float
    link_sd: float


def allocate(variation: Variation, hosts: int, generator: np.random.Generator) -> tuple[Pace, ...]:
    """One draw for each VM of an allocation, independent of each other."""

    def pick(values: tuple[float, ...]) -> list[float]:
        return [float(value) for value in generator.choice(values, hosts)]

    columns = (
        pick(variation.compute_between),
        pick(variation.compute_within),
        pick(variation.link_between),
        pick(variation.link_within),
    )
    return tuple(Pace(*row) for row in zip(*columns, strict=True))


def step_factors(log_sd: float, steps: int, generator: np.random.Generator) -> Floats:
    """Factors of `steps` steps, shape (steps,): log-normal with mean 1."""
    return np.exp(log_sd * generator.standard_normal(steps) - log_sd**2 / 2)


def relative(groups: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """All values of all groups, each divided by its own group's median."""
    return tuple(float(v) for group in groups for v in np.asarray(group) / np.median(group))


def robust_log_sd(values: Sequence[float]) -> float:
    """Log standard deviation by the median absolute deviation: a rare hiccup is no noise.

    1.4826 makes it the standard deviation where the logarithms are normal.
    """
    logs = np.log(np.asarray(values, dtype=np.float64))
    return float(1.4826 * np.median(np.abs(logs - np.median(logs))))


def log_normal_quantiles(log_sd: float, median: float = 1.0) -> tuple[float, ...]:
    """99 evenly likely values of a log-normal distribution."""
    normal = NormalDist()
    return tuple(median * float(np.exp(log_sd * normal.inv_cdf((k + 0.5) / 99))) for k in range(99))


STATED = Variation(
    compute_between=log_normal_quantiles(0.025),
    compute_within=log_normal_quantiles(1.0, median=0.0007),
    link_between=log_normal_quantiles(0.17),
    link_within=log_normal_quantiles(1.0, median=0.008),
    sources=(
        "log-normal, deviation 0.025: V100s of one cluster, ResNet-50 (Sinha 2022)",
        "log-normal around 0.0007: ResNet-50 on 350 single-GPU VMs (Lambda's benchmarks)",
        "log-normal, deviation 0.17: pairs of V100 VMs, 4 MiB messages (converged-computing 2024)",
        "log-normal around 0.008: repeated allreduces of 1 MiB on GPU VMs (the same study)",
    ),
)
