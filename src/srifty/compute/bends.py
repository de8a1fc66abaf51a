"""What few noisy probes say about the curve between them.

Plain interpolation draws chords between the probes. Three things are known beyond that:

* Probes are noisy. Where a curve turns both up and down, the weaker turns are taken for noise and
  straightened.
* Small batches are bound by kernel launches, whose time does not depend on the batch but scatters.
  Nearly equal latencies at the start that do not fit the turn after them are averaged.
* Curves bend between the probes, not at them. Where a stretch turns the same way at both its ends,
  the truth lies between its chord and the corner in which the neighbouring stretches, extended,
  meet; a smooth curve goes about a third of the way.

Beyond the last probe but one nothing shows a bend: there a GPU is throughput-bound, the last
stretch stays a line.
"""

import numpy as np

from srifty.compute.probes import Floats, Probes

# Relative standard deviation of a probe. The spread of repeated runs on one GPU is 0.1 to 3 %.
NOISE = 0.01
# A stretch is flat if doubling the batch costs less than 7 % (2 ** 0.1), and belongs to the launch
# floor if it stays this near to the first probe: two standard deviations of the difference of two
# launch-bound probes, which scatter by about 5 %.
FLOOR_ELASTICITY, FLOOR_SCATTER = 0.1, 0.15
# The way of a smooth curve from the chord to the corner, halfway (in octaves) between probes that
# are a factor of 4 apart: 0.33 for log B, 0.34 for a hand-over sqrt(1 + B^2) centred there.
BEND_SHARE = 1.0 / 3.0


def steadied(probes: Probes) -> Floats:
    """Returns the latencies without what is likely to be noise.

    Args:
        probes: at least one.
    """
    batch, latency = probes.batch, probes.latency_s.copy()
    if len(batch) < 4:
        # A single turn contradicts nothing.
        return latency
    turns = _turns(batch, latency)
    flat = np.abs(_elasticities(batch, latency)) < FLOOR_ELASTICITY
    flat &= np.abs(np.log(latency[1:] / latency[0])) < FLOOR_SCATTER
    floor = int(np.argmin(np.append(flat, False)))
    if 0 < floor < len(turns) and turns[:floor].min() < 0.0 < turns.max():
        weight = probes.noise[: floor + 1] ** -2.0
        latency[: floor + 1] = np.exp(np.average(np.log(latency[: floor + 1]), weights=weight))
        turns = _turns(batch, latency)
    if turns.min() < 0.0 < turns.max():
        trend = np.sign(turns.max() + turns.min())
        for middle in range(1, len(batch) - 1):
            around = slice(middle - 1, middle + 2)
            if trend * _turns(batch[around], latency[around])[0] < 0.0:
                latency[around] = _straightened(
                    batch[around], latency[around], probes.noise[around]
                )
    return latency


def bent(batch: Floats, latency: Floats) -> tuple[Floats, Floats]:
    """Returns knots and latencies of the curve through the points that bends between them.

    A stretch bends if it turns the same way at both ends: one knot on the way from its chord to the
    corner where its neighbours meet. Neighbours are taken to rise neither less than not at all nor
    more than in proportion to the batch. What precedes the first stretch is guessed: slopes that go
    on in the ratio of the first two. Ever flatter curves need two turns for that; steeper ones
    count the less, the more of the stretch is launch floor, where nothing bends.

    Args:
        batch: batch sizes, positive, strictly ascending.
        latency: seconds at each of them, positive.
    """
    slopes, steepest = np.diff(latency) / np.diff(batch), latency / batch
    turns = _turns(batch, latency)
    growth = float(np.clip(_elasticities(batch, latency)[0], 0.0, 1.0))
    # A turn no larger than the noise says little: signal / (signal + noise), as variances. One into
    # a fall says nothing about a curve that rises.
    trusted = turns**2 / (turns**2 + NOISE**2)
    trusted[(turns < 0.0) & (slopes[1:] <= 0.0)] = 0.0
    knots, values = batch.tolist(), latency.tolist()
    for start in range(len(slopes) - 1):
        ends = slice(max(0, start - 1), start + 1)
        steeper, flatter = bool(np.all(turns[ends] > 0.0)), bool(np.all(turns[ends] < 0.0))
        if start > 0:
            before = float(slopes[start - 1])
        else:
            before = float(slopes[0]) ** 2 / max(float(slopes[1]), 1e-300)
            if flatter:
                ends = slice(0, 2)
                flatter = len(turns) > 1 and bool(np.all(turns[ends] < 0.0))
        share = BEND_SHARE * float(trusted[ends].min())
        if start == 0 and steeper:
            share *= growth
        before = float(np.clip(before, 0.0, steepest[start]))
        after = float(np.clip(slopes[start + 1], 0.0, steepest[start + 1]))
        slope, width = float(slopes[start]), float(batch[start + 1] - batch[start])
        if not ((steeper and before < slope < after) or (flatter and before > slope > after)):
            continue
        corner = width * (after - slope) / (after - before)
        if 1e-6 * width < corner < (1.0 - 1e-6) * width:
            knots.append(float(batch[start]) + corner)
            values.append(float(latency[start]) + corner * (slope + share * (before - slope)))
    order = np.argsort(knots)
    return np.array(knots)[order], np.array(values)[order]


def _elasticities(batch: Floats, latency: Floats) -> Floats:
    return np.diff(np.log(latency)) / np.diff(np.log(batch))


def _turns(batch: Floats, latency: Floats) -> Floats:
    """Returns how far each inner point lies below the chord of its neighbours, as a fraction."""
    right = (batch[1:-1] - batch[:-2]) / (batch[2:] - batch[:-2])
    return ((1.0 - right) * latency[:-2] + right * latency[2:]) / latency[1:-1] - 1.0


def _straightened(batch: Floats, latency: Floats, noise: Floats) -> Floats:
    """Returns three points moved towards a common line, each by at most one standard deviation."""
    right = (batch[1] - batch[0]) / (batch[2] - batch[0])
    turn = np.array([1.0 - right, -1.0, right])
    # Least sum of squared moves, in units of the noise, that makes the turn vanish.
    direction = turn * (latency * noise) ** 2
    move = -direction * (turn @ latency) / (turn @ direction)
    largest = float(np.max(np.abs(move) / (latency * noise)))
    return latency + move * NOISE / max(NOISE, largest)
