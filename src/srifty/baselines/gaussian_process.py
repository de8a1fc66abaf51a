"""A Gaussian process on few exact measurements: what Bayesian optimisation believes in between.

Optuna's sampler of this kind needs torch, which is far more than a baseline is worth, and proposes
points of a box rather than of a list of configurations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

FloatArray = NDArray[np.float64]

# Length scales that are tried, as shares of the inputs' range.
_LENGTHS = np.geomspace(0.05, 3.0, 25)
# What keeps the covariance of exact measurements invertible.
_JITTER = 1e-8


@dataclass(frozen=True)
class GaussianProcess:
    """A fitted process with a Matérn 5/2 kernel.

    Attributes:
        inputs: (P, D) where it was measured, each input in [0, 1].
        precision: (P, P) inverse of the covariance of the standardised values.
        weights: (P,) precision · standardised values.
        length: length scale.
        mean: of the values.
        std: of the values; the prior's.
    """

    inputs: FloatArray
    precision: FloatArray
    weights: FloatArray
    length: float
    mean: float
    std: float

    @classmethod
    def fit(cls, inputs: FloatArray, values: FloatArray) -> GaussianProcess:
        """Returns the process whose length scale makes the values most likely.

        Args:
            inputs: (P, D) in [0, 1], at least one, no point twice.
            values: (P,) what was measured there.
        """
        mean, std = float(values.mean()), float(values.std()) or 1.0
        scaled = (values - mean) / std
        distance = _distance(inputs, inputs)
        best: GaussianProcess | None = None
        best_likelihood = -np.inf
        for length in _LENGTHS:
            covariance = _matern(distance / length) + _JITTER * np.eye(len(values))
            precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
            weights = precision @ scaled
            log_determinant = float(np.linalg.slogdet(covariance)[1])
            likelihood = -0.5 * (float(scaled @ weights) + log_determinant)
            if likelihood > best_likelihood:
                best_likelihood = likelihood
                best = cls(inputs, precision, weights, float(length), mean, std)
        if best is None:
            raise ValueError("values must be finite")
        return best

    def predict(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns (N,) means and (N,) standard deviations at (N, D) inputs."""
        cross = _matern(_distance(inputs, self.inputs) / self.length)
        variance = np.maximum(1.0 - np.einsum("np,pq,nq->n", cross, self.precision, cross), 0.0)
        return self.mean + self.std * (cross @ self.weights), self.std * np.sqrt(variance)


def expected_improvement(mean: FloatArray, std: FloatArray, best: float) -> FloatArray:
    """Returns how far below `best` a normal value is expected to fall (Mockus 1975)."""
    margin = best - mean
    safe = np.where(std > 0, std, 1.0)
    z = margin / safe
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    return np.where(std > 0, margin * ndtr(z) + safe * density, np.maximum(margin, 0.0))


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.sqrt(np.square(a[:, None, :] - b[None, :, :]).sum(axis=2))


def _matern(ratio: FloatArray) -> FloatArray:
    """Returns the Matérn 5/2 correlation at distances in length scales."""
    root = np.sqrt(5.0) * ratio
    return (1 + root + np.square(root) / 3) * np.exp(-root)
