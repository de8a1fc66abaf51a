"""The case study of Luo et al. 2022, section 2.3: how searches choose among 18 worlds. Pure.

Bayesian optimisation may probe four times, within the first allocation; what it ends with is the
best that it saw. With the concave prior (as HeterBO has it) a probe with less throughput than that
of fewer VMs rules out all larger worlds, and one with more all smaller ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from srifty.baselines.gaussian_process import GaussianProcess, expected_improvement

FloatArray = NDArray[np.float64]
PROBES = 4
_FIRST = 2


@dataclass(frozen=True)
class Search:
    """What Bayesian optimisation did.

    Attributes:
        probed: numbers of VMs, in the order of the probes.
        choice: the number of VMs that it ends with.
        early: whether the prior left nothing to probe before the probes were used up.
    """

    probed: tuple[int, ...]
    choice: int
    early: bool


def bayesian(seconds: Mapping[int, float], *, seed: int, concave: bool = False) -> Search:
    """Returns what a search ends with that sees one allocation.

    Args:
        seconds: of an iteration, by number of VMs: what a probe measures.
        seed: of the first two probes.
        concave: whether it believes that throughput is concave in the number of VMs.
    """
    sizes = sorted(seconds)
    rng = np.random.default_rng(seed)
    first = [int(n) for n in rng.permutation(sizes)[:_FIRST]]
    probed: list[int] = []
    early = False
    while len(probed) < PROBES:
        left = [n for n in sizes if n not in probed]
        if concave:
            left = [n for n in left if _possible(n, probed, seconds)]
        if not left:
            early = True
            break
        if first and first[0] in left:
            probed.append(first.pop(0))
            continue
        first.clear()
        probed.append(_most_promising(left, probed, seconds, sizes))
    return Search(tuple(probed), min(probed, key=lambda n: seconds[n]), early)


def _possible(n: int, probed: Sequence[int], seconds: Mapping[int, float]) -> bool:
    """Whether the best world may be n, if throughput is concave in n and probes say so much."""
    for few in probed:
        for many in probed:
            if few < many and seconds[many] > seconds[few] and n > many:
                return False
            if few < many and seconds[many] < seconds[few] and n < few:
                return False
    return True


def _most_promising(
    left: Sequence[int], probed: Sequence[int], seconds: Mapping[int, float], sizes: Sequence[int]
) -> int:
    if not probed:
        return left[0]
    log_s = np.log([seconds[n] for n in probed])
    process = GaussianProcess.fit(_inputs(probed, sizes), log_s)
    mean, std = process.predict(_inputs(left, sizes))
    return left[int(expected_improvement(mean, std, float(log_s.min())).argmax())]


def curve(seconds: Mapping[int, float], probed: Sequence[int]) -> dict[int, float]:
    """Returns what the Gaussian process believes of every world after some probes; seconds."""
    sizes = sorted(seconds)
    process = GaussianProcess.fit(_inputs(probed, sizes), np.log([seconds[n] for n in probed]))
    mean, _ = process.predict(_inputs(sizes, sizes))
    return {n: float(np.exp(value)) for n, value in zip(sizes, mean, strict=True)}


def _inputs(some: Sequence[int], sizes: Sequence[int]) -> FloatArray:
    """Returns (N, 1) logarithms of numbers of VMs, scaled to [0, 1]."""
    low, high = np.log(min(sizes)), np.log(max(sizes))
    return ((np.log(np.array(some, dtype=np.float64)) - low) / (high - low))[:, None]


def climb(seconds: Mapping[int, float]) -> int:
    """Returns where one stops who adds VMs, one by one, as long as that makes it faster."""
    sizes = sorted(seconds)
    for few, many in pairwise(sizes):
        if seconds[many] >= seconds[few]:
            return few
    return sizes[-1]


def dips(seconds: Mapping[int, float]) -> list[int]:
    """Returns the worlds after which more VMs are slower first and faster than ever later on."""
    sizes = sorted(seconds)
    found: list[int] = []
    for at, n in enumerate(sizes[1:], start=1):
        before = min(seconds[m] for m in sizes[:at])
        after = min((seconds[m] for m in sizes[at + 1 :]), default=np.inf)
        if seconds[n] > before > after:
            found.append(n)
    return found


@dataclass(frozen=True)
class Loss:
    """How far a choice lies from the best of each allocation.

    Attributes:
        mean_slower: best throughput over the choice's, mean of the allocations.
        most_slower: the same, at worst.
        mean_dearer: the choice's cost over that of the fastest, mean of the allocations.
        most_dearer: the same, at worst.
    """

    mean_slower: float
    most_slower: float
    mean_dearer: float
    most_dearer: float

    @classmethod
    def of(cls, choices: Sequence[int], allocations: Sequence[Mapping[int, float]]) -> Loss:
        """Returns the loss of choices, each in every allocation.

        Args:
            choices: numbers of VMs; several for a search with several starts.
            allocations: seconds of an iteration by number of VMs.
        """
        slower: list[float] = []
        dearer: list[float] = []
        for choice in choices:
            for seconds in allocations:
                best = min(seconds, key=lambda n: seconds[n])
                ratio = seconds[choice] / seconds[best]
                slower.append(ratio)
                dearer.append(ratio * choice / best)
        return cls(float(np.mean(slower)), max(slower), float(np.mean(dearer)), max(dearer))


def means(allocations: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Returns mean seconds of the allocations, by number of VMs."""
    return {n: float(np.mean([one[n] for one in allocations])) for n in sorted(allocations[0])}
