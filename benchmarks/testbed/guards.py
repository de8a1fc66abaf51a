"""Whether a run on the bed says anything: it is void where the CPU, and not the link, set the pace.

Pure: what was measured comes in, a verdict with its reasons goes out.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.testbed.cpu import CpuUse


@dataclass(frozen=True)
class Bounds:
    """From where on a run is void.

    Attributes:
        own_fraction: of all cores, used by the run's own processes, mean over the run.
        foreign_fraction: of all cores, used by anything else (interrupts for the run included).
        wait_fraction: of the run's time, that the rank which waited longest was ready to run and
            had no core.
        spread: of the repeats, (largest - smallest) / median.
    """

    own_fraction: float = 0.75
    foreign_fraction: float = 0.25
    wait_fraction: float = 0.02
    spread: float = 0.05


@dataclass(frozen=True)
class Verdict:
    """Whether a run is void, and why.

    Attributes:
        reasons: a sentence per bound that was passed; none: the run counts.
    """

    reasons: tuple[str, ...] = ()

    @property
    def void(self) -> bool:
        """Whether the run does not count."""
        return bool(self.reasons)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(self.reasons + other.reasons)


def judge_cpu(use: CpuUse, waits_s: Sequence[float], bounds: Bounds | None = None) -> Verdict:
    """Whether a run's processes had the CPU that they wanted.

    Args:
        use: the machine's CPUs while the run was timed.
        waits_s: for every rank, how long its threads were ready and had no core, summed, in s,
            over the same span; none where it was not measured.
        bounds: from where on it is void.
    """
    bounds = bounds or Bounds()
    reasons: list[str] = []
    own = use.own_cores / use.cores
    if own > bounds.own_fraction:
        reasons.append(
            f"the run's processes kept {use.own_cores:.2f} of {use.cores} cores busy "
            f"({own:.0%}, at most {bounds.own_fraction:.0%})"
        )
    foreign = use.foreign_cores / use.cores
    if foreign > bounds.foreign_fraction:
        reasons.append(
            f"other processes kept {use.foreign_cores:.2f} of {use.cores} cores busy "
            f"({foreign:.0%}, at most {bounds.foreign_fraction:.0%})"
        )
    longest_s = max(waits_s, default=0.0)
    if longest_s > bounds.wait_fraction * use.span_s:
        rank = list(waits_s).index(longest_s)
        reasons.append(
            f"rank {rank} waited for a core for {longest_s:.3f} of {use.span_s:.3f} s "
            f"({longest_s / use.span_s:.1%}, at most {bounds.wait_fraction:.1%})"
        )
    return Verdict(tuple(reasons))


def judge_repeats(times_s: Sequence[float], bounds: Bounds | None = None) -> Verdict:
    """Whether repeats of one run agree; times in s, all above 0."""
    bounds = bounds or Bounds()
    if len(times_s) < 2:
        return Verdict(("there are no repeats to compare",))
    spread = (max(times_s) - min(times_s)) / statistics.median(times_s)
    if spread <= bounds.spread:
        return Verdict()
    return Verdict(
        (
            f"repeats took {min(times_s):.4g} to {max(times_s):.4g} s "
            f"(apart by {spread:.1%} of their median, at most {bounds.spread:.1%})",
        )
    )


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many runs are void, in a sentence."""
    void = sum(verdict.void for verdict in verdicts)
    return f"{void} of {len(verdicts)} runs are void."
