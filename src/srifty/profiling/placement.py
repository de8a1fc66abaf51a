"""Which few batch sizes to time, so that the curve through them says most about all others. Pure.

Latency curves jump (caches, blocking, kernels that are chosen by size), and evenly spread probes
miss the jumps. So every candidate is first run for a step or two (scouted). Then those few are
timed well through which the fitted curve comes nearest to everything that was scouted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srifty.errors import InputError

Floats = NDArray[np.float64]
Predict = Callable[[Floats], Floats]
Fit = Callable[[Sequence[int], Sequence[float]], Predict]
"""Batch sizes and their latencies (seconds) → latencies at any batch sizes."""

DEFAULT_PROBES = 4
# Half octaves over the three decades that most models span would be more; two steps of each must
# stay cheap beside the timing itself.
MOST_CANDIDATES = 14
# With more choices than this the set is built up one size after the other.
_MOST_SETS = 400
# Sets whose distances differ by less are told apart by chance: the most even one is taken.
_TIE = 0.001
# So few passes are fitted at a time to tell how much a set owes to chance. Two scatter as much as
# it takes: with all but one, sets that hang on the noise of a single size still look good.
_FITTED_PASSES = 2
# So many of the nearest sets are compared once more.
_SHORT_LIST = 20


@dataclass(frozen=True, slots=True)
class Scouted:
    """What a step or two showed of one batch size.

    Attributes:
        batch: samples in a pass.
        forward_s: forward pass, seconds.
        backward_s: backward pass, seconds.
    """

    batch: int
    forward_s: float
    backward_s: float


@dataclass(frozen=True, slots=True)
class Placement:
    """The batch sizes to time.

    Attributes:
        batches: ascending.
        scouted_error: mean relative distance of the curves through them from what was scouted; of
            forward, backward and their sum the largest.
    """

    batches: tuple[int, ...]
    scouted_error: float


def candidate_sizes(least: int, most: int, count: int = MOST_CANDIDATES) -> tuple[int, ...]:
    """Returns batch sizes evenly spread by ratio, rounded to 1, 1.5, 2, 3, 4, 6, ... where it fits.

    Args:
        least: the smallest, always among them.
        most: the largest, always among them.
        count: at most so many.

    Raises:
        InputError: `least` is below 1 or above `most`, or fewer than 2 are asked for.
    """
    if not 1 <= least <= most or count < 2:
        raise InputError(f"no {count} batch sizes lie between {least} and {most}")
    between = half_octaves(least, most)
    while len(between) > count - 2:  # the powers of two first: plans are made of them
        thinner = [size for size in between if size & (size - 1) == 0]
        between = thinner if len(thinner) < len(between) else between[1::2]
    return tuple(sorted({least, *between, most}))


def chords(batches: Sequence[int], latencies_s: Sequence[float]) -> Predict:
    """Returns plain linear interpolation: what placement uses where it is given no model."""

    def predict(at: Floats) -> Floats:
        return np.asarray(np.interp(at, batches, latencies_s))

    return predict


def place_probes(
    passes: Sequence[Sequence[Scouted]], count: int = DEFAULT_PROBES, fit: Fit = chords
) -> Placement:
    """Returns the `count` sizes whose curves come nearest to all scouted latencies.

    Smallest and largest are always among them: nothing is extrapolated. Nearest by the mean
    relative distance at the other sizes, of forward, backward and their sum whichever is worst.
    The nearest sets are compared once more by the curves through each pair of passes alone, so that
    none is taken for the sake of noise or a disturbed pass; of sets that come about as near, the
    one without wide gaps.

    Args:
        passes: what each pass over the same sizes saw, by ascending batch.
        count: how many sizes, at least 2.
        fit: the model that will read the probes.

    Raises:
        InputError: fewer than 2 are asked for, or nothing was scouted.
    """
    if count < 2 or not passes or not passes[0]:
        raise InputError(f"cannot place {count} probes among batch sizes that were not scouted")
    batches = [one.batch for one in passes[0]]
    last = len(batches) - 1
    if last + 1 <= count:
        return Placement(tuple(batches), 0.0)
    seen = np.array([[(one.forward_s, one.backward_s) for one in each] for each in passes])
    whole = _undisturbed(seen)
    inner = range(1, last)

    def near(chosen: tuple[int, ...]) -> float:
        return _distance(batches, whole, whole, chosen, fit)

    if math.comb(len(inner), count - 2) <= _MOST_SETS:
        sets = [(0, *chosen, last) for chosen in itertools.combinations(inner, count - 2)]
        distances = {chosen: near(chosen) for chosen in sets}
        best = _steadiest(batches, seen, distances, fit)
    else:
        best = (0, last)
        while len(best) < count:
            wider = [tuple(sorted((*best, index))) for index in inner if index not in best]
            best = min(wider, key=near)
    return Placement(tuple(batches[index] for index in best), near(best))


def geometric_probes(sizes: Sequence[int], count: int = DEFAULT_PROBES) -> tuple[int, ...]:
    """Returns `count` of the sizes, nearest to an even spread by ratio, the ends included."""
    if len(sizes) <= count:
        return tuple(sizes)
    targets = np.linspace(math.log(sizes[0]), math.log(sizes[-1]), count)
    chosen: set[int] = set()
    for target in targets.tolist():
        free = [size for size in sizes if size not in chosen]
        chosen.add(min(free, key=lambda size: abs(math.log(size) - target)))
    return tuple(sorted(chosen))


def _steadiest(
    batches: Sequence[int], seen: Floats, distances: Mapping[tuple[int, ...], float], fit: Fit
) -> tuple[int, ...]:
    """Returns of the nearest sets the one that stays nearest whichever passes are fitted."""
    nearest = sorted(distances, key=lambda chosen: distances[chosen])[:_SHORT_LIST]
    if len(seen) > _FITTED_PASSES:
        whole = _undisturbed(seen)
        groups = itertools.combinations(range(len(seen)), _FITTED_PASSES)
        few = [_undisturbed(seen[list(group)]) for group in groups]
        # As many groups as are without any one pass: that one may have been disturbed.
        quiet = math.comb(len(seen) - 1, _FITTED_PASSES)
        distances = {
            chosen: float(
                np.mean(sorted(_distance(batches, f, whole, chosen, fit) for f in few)[:quiet])
            )
            for chosen in nearest
        }
    tied = min(distances[chosen] for chosen in nearest) + _TIE
    return min(
        (chosen for chosen in nearest if distances[chosen] <= tied),
        key=lambda chosen: max(
            batches[after] / batches[before] for before, after in itertools.pairwise(chosen)
        ),
    )


def _undisturbed(seen: Floats) -> Floats:
    """Returns the lower quartile over the passes: disturbances only ever add time.

    Args:
        seen: (passes, sizes, 2) seconds of forward and backward.
    """
    return np.asarray(np.percentile(seen, 25, axis=0))


def half_octaves(least: int, most: int) -> list[int]:
    """Returns 2, 3, 4, 6, 8, ... between two batch sizes, without these."""
    sizes = {1 << power for power in range(most.bit_length())}
    sizes |= {3 << power for power in range(most.bit_length())}
    return sorted(size for size in sizes if least < size < most)


def _distance(
    batches: Sequence[int], shown: Floats, truth: Floats, chosen: Sequence[int], fit: Fit
) -> float:
    """Returns the mean relative distance, of forward, backward and their sum the largest.

    Args:
        batches: the sizes.
        shown: (sizes, 2) seconds of forward and backward that are fitted, at the chosen sizes.
        truth: the same that the curves are compared with, at the others.
        chosen: positions of the probes.
        fit: the model.
    """
    probes = list(chosen)
    others = np.setdiff1d(np.arange(len(batches)), probes)
    where = np.array(batches, dtype=np.float64)[others]
    distances: list[float] = []
    for weights in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        fitted = fit([batches[index] for index in probes], (shown @ weights)[probes].tolist())
        distances.append(float(np.mean(np.abs(fitted(where) / (truth @ weights)[others] - 1))))
    return max(distances)
