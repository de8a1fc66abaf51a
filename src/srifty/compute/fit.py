"""The latency curve that a few noisy probes support, and how far to trust it.

Everything is relative: residuals are fractions of the latency, distances octaves.
"""

import numpy as np
from numpy.typing import ArrayLike

from srifty.compute.bends import bent, steadied
from srifty.compute.piecewise import PiecewiseLinear
from srifty.compute.probes import Probes
from srifty.compute.segments import (
    exact_segments,
    few_segments,
    largest_fall,
    level_falls,
    many_segments,
)

# A fall of latency with growing batch that stays below this fraction is noise and is levelled.
NOISE_FALL = 0.05
# From this many probes on, the probes themselves choose the number of segments.
MANY_PROBES = 9
# Lowest and default relative model errors, see `residual_fraction`.
RESIDUAL_FLOOR = 0.02
RESIDUAL_UNKNOWN = {1: 0.4, 2: 0.12}


def fit_latency(
    batches: ArrayLike, latencies_s: ArrayLike, *, relative_std: ArrayLike | None = None
) -> PiecewiseLinear:
    """Returns the piecewise-linear latency curve that few noisy probes support.

    One probe: a constant share plus a proportional part. Two probes: a line. From three on: the
    line or two-segment curve that meets all probes, if there is one; else the chords between the
    probes, steadied and bent (`srifty.compute.bends`), reduced to at most 3 segments. From nine
    probes on that curve only proposes the knots; segments (up to 6) and latencies are chosen by the
    probes.
    Falls with growing batch of at most `NOISE_FALL` are levelled; larger ones are kept.

    Args:
        batches: probed batch sizes, positive; any order, repeats are averaged.
        latencies_s: measured seconds, positive, one per batch size.
        relative_std: standard deviation of each latency as a fraction of it, positive; only the
            ratios between probes matter. None: all probes are equally good.

    Raises:
        ValueError: lengths differ or are 0, or a value is not positive and finite.
    """
    return _fit(Probes.of(batches, latencies_s, relative_std=relative_std))


def residual_fraction(
    batches: ArrayLike, latencies_s: ArrayLike, *, relative_std: ArrayLike | None = None
) -> float:
    """Returns the model's relative error (a standard deviation) by leave-one-out.

    Each probe but the first and the last is predicted by a fit to the others; the root mean square
    of the relative errors, at least `RESIDUAL_FLOOR`. A fit without a probe bridges a gap twice as
    wide, but errors have long tails: on public curves with four probes ±1.645 of this held 86 to
    97 % of the sizes that were not probed. One and two probes say nothing about the model;
    `RESIDUAL_UNKNOWN` is what such curves showed.

    Args:
        batches: as for `fit_latency`.
        latencies_s: as for `fit_latency`.
        relative_std: as for `fit_latency`.

    Raises:
        ValueError: as for `fit_latency`.
    """
    probes = Probes.of(batches, latencies_s, relative_std=relative_std)
    if len(probes) in RESIDUAL_UNKNOWN:
        return RESIDUAL_UNKNOWN[len(probes)]
    errors = [
        float(_fit(probes.without(index)).predict(probes.batch[index]))
        / float(probes.latency_s[index])
        - 1.0
        for index in range(1, len(probes) - 1)
    ]
    return max(RESIDUAL_FLOOR, float(np.sqrt(np.mean(np.square(errors)))))


def _fit(probes: Probes) -> PiecewiseLinear:
    if len(probes) == 1:
        return PiecewiseLinear.from_points(probes.batch, probes.latency_s)
    points = exact_segments(probes)
    if points is None:
        points = bent(probes.batch, steadied(probes))
        if len(probes) < MANY_PROBES:
            points = few_segments(*points)
        else:
            points = many_segments(probes, *points)
    knots, values = points
    if largest_fall(probes.latency_s) <= NOISE_FALL:
        values = level_falls(values)
    return PiecewiseLinear.from_points(knots, values)
