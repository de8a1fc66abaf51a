"""The knee of a latency curve: where latency-bound batches turn into throughput-bound ones."""

import numpy as np

from srifty.compute.piecewise import PiecewiseLinear


def knee(curve: PiecewiseLinear, *, share: float = 0.5) -> float:
    """Returns the smallest batch whose throughput reaches `share` of the best one measured.

    Below it a GPU is latency-bound: fewer samples cost almost the same time. Only batches between
    the first and last knot are considered: a line through the origin gives the first knot, a pure
    plateau `share` of the last.

    Args:
        curve: the latency curve.
        share: fraction of the best throughput, in (0, 1].

    Raises:
        ValueError: share is outside (0, 1].
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must be in (0, 1], got {share}; 0.5 is half the best throughput")
    knots, latency = np.asarray(curve.knots), np.asarray(curve.latencies_s)
    # B / (a + c B) is monotone on a segment, so the best throughput is found at a knot.
    throughput = knots / latency
    target = share * float(throughput.max())
    reached = int(np.argmax(throughput >= target * (1.0 - 1e-12)))
    if reached == 0:
        return float(knots[0])
    before = reached - 1
    slope = (latency[reached] - latency[before]) / (knots[reached] - knots[before])
    intercept = latency[before] - slope * knots[before]
    # Solve B = target * (a + c B).
    return float(
        np.clip(target * intercept / (1.0 - target * slope), knots[before], knots[reached])
    )
