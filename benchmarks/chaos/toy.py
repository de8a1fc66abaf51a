"""What the workers of a disturbed run train: whole numbers, whose end shows every sample.

The parameters are one number. What a step adds to it depends on each sample of its batch and on
the number before, and is exact: a sample that is lost, dealt twice, or made with stale parameters
changes the end, and how the batch was shared out does not.
"""

from __future__ import annotations

from collections.abc import Iterable

BATCH = 64
_PRIME = 2**61 - 1
FIRST = 1


def gradient(parameters: int, samples: range) -> int:
    """Returns a share's part of a step's gradient."""
    return total(parameters ^ (sample * 0x9E3779B97F4A7C15) for sample in samples)


def total(parts: Iterable[int]) -> int:
    """Returns the sum of several workers' numbers."""
    return sum(parts) % _PRIME


def after(parameters: int, gradients: int) -> int:
    """Returns the parameters after a step whose gradients, of all shares, add up so."""
    return (3 * parameters + gradients) % _PRIME


def samples(step: int, first: int, count: int) -> range:
    """Returns the samples of one share of a step."""
    return range(step * BATCH + first, step * BATCH + first + count)


def undisturbed(steps: int) -> int:
    """Returns the parameters after so many steps of one worker that nothing happened to."""
    parameters = FIRST
    for step in range(steps):
        parameters = after(parameters, gradient(parameters, samples(step, 0, BATCH)))
    return parameters
