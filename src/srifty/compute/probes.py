"""Measured batch latencies, checked, sorted and with repeats merged."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Probes:
    """Latencies of distinct batch sizes, ascending.

    Attributes:
        batch: batch sizes, positive, strictly ascending.
        latency_s: seconds at each of them, positive; the mean where a size was measured repeatedly.
        noise: standard deviation of each latency as a fraction of it, scaled to a root mean square
            of 1: only ratios between probes are known.
    """

    batch: Floats
    latency_s: Floats
    noise: Floats

    @classmethod
    def of(
        cls,
        batches: ArrayLike,
        latencies_s: ArrayLike,
        *,
        relative_std: ArrayLike | None = None,
    ) -> "Probes":
        """Returns the probes in order, repeats averaged.

        Args:
            batches: batch sizes, positive; any order.
            latencies_s: seconds, positive, one per batch size.
            relative_std: standard deviation of each latency as a fraction of it, positive. None:
                all are equally good.

        Raises:
            ValueError: lengths differ or are 0, or a value is not positive and finite.
        """
        batch = np.asarray(batches, dtype=np.float64)
        latency = np.asarray(latencies_s, dtype=np.float64)
        check_points(batch, latency)
        noise = (
            np.ones_like(batch)
            if relative_std is None
            else np.asarray(relative_std, dtype=np.float64)
        )
        if noise.shape != batch.shape or not np.all(np.isfinite(noise) & (noise > 0.0)):
            raise ValueError(
                f"relative_std must hold one positive, finite fraction per probe, got"
                f" {noise.tolist()}; pass None if the spread is unknown"
            )
        sizes, group = np.unique(batch, return_inverse=True)
        count = np.bincount(group).astype(np.float64)
        mean = np.bincount(group, weights=latency) / count
        # The mean of k repeats is as noisy as one probe with 1 / sqrt(k) of the deviation.
        deviation = np.sqrt(np.bincount(group, weights=noise**2)) / count
        return cls(sizes, mean, deviation / np.sqrt(np.mean(deviation**2)))

    def __len__(self) -> int:
        return len(self.batch)

    def without(self, index: int) -> "Probes":
        """Returns the probes but one.

        Args:
            index: position of the one to leave out.
        """
        kept = np.arange(len(self)) != index
        return Probes.of(self.batch[kept], self.latency_s[kept], relative_std=self.noise[kept])


def check_points(batch: Floats, latency: Floats) -> None:
    """Refuses points that cannot lie on a latency curve.

    Args:
        batch: batch sizes.
        latency: seconds, one per batch size.

    Raises:
        ValueError: lengths differ or are 0, or a value is not positive and finite.
    """
    if batch.ndim != 1 or batch.shape != latency.shape or batch.size == 0:
        raise ValueError(
            f"batches and latencies_s must be one-dimensional, of one length and not empty, got"
            f" shapes {batch.shape} and {latency.shape}; pass one latency per batch size"
        )
    for name, values, remedy in (
        ("batches", batch, "drop probes without samples"),
        ("latencies_s", latency, "drop failed probes; latencies are in seconds"),
    ):
        wrong = ~(np.isfinite(values) & (values > 0.0))
        if wrong.any():
            raise ValueError(
                f"{name} must be positive and finite, got {float(values[wrong][0])}; {remedy}"
            )
