"""Kriging: a Gaussian random field around the trend of one curve.

    log T(V, g, s) = trend(V, g, s) + f(V, g, s) + quirk

f is a smooth function of log2 s at the smallest world; from world to world it moves by increments
that are smooth in log2 s, too, and independent of each other: a Brownian motion in log2 V and in
log2 g. Its forecast is therefore close to linear interpolation inside the measured worlds, stays
with the nearest world outside, is pulled towards a few probes of a new world, and becomes less
certain with the distance. A *quirk* is what one size in one world does that no neighbour shares;
how large quirks are is read off the roughness of the measured curves, size by size, so that rough
stretches are smoothed and smooth ones followed. (Rasmussen & Williams 2006, ch. 2 and 4; Student-t
noise by reweighting.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from srifty.allreduce.table import Points
from srifty.allreduce.trend import Trend

FloatArray = NDArray[np.float64]

# Variances are of log time, lengths in octaves of the message size. They were set beforehand; other
# values within a factor of three change the errors on public logs by less than a point.
_LEVEL = 4.0  # the whole curve, up or down: hardly known
_SHAPE, _SHAPE_OCTAVES = 0.3, 4.0
_STEP = 0.02  # per doubling of the VMs: the whole curve
_STEP_SHAPE, _STEP_OCTAVES = 0.03, 3.0  # per doubling of the VMs: its shape
_REPEAT = 0.003  # between repeats of one point
_GPUS_OVER_VMS = 4.0  # doubling the ranks of a VM says less than doubling the VMs
# Roughness is a local mean over this many octaves, drawn towards what repeats alone would show.
_ROUGH_OCTAVES = 2.0
_ROUGH_PRIOR, _ROUGH_PRIOR_POINTS = 0.003, 3.0
_STUDENT = 4.0  # degrees of freedom
_REWEIGHTINGS = 4
# Points answered at once: a matrix of so many rows still fits in a cache or two.
_CHUNK = 2048
# A curve measured at hundreds of sizes says no more than one measured at these many.
_MOST_SIZES = 48


class KrigingCurve:
    """The field of one curve at one link level."""

    def __init__(self, points: Points) -> None:
        """Takes at least one point."""
        points = _thinned(points.take(~points.outliers()))
        self._trend = Trend.fit(points)
        self._at = _coordinates(points.world_size, points.vms, points.size_bytes)
        self._origin = self._at[:, :2].min(axis=0)
        self._rough_at, self._rough = _roughness(points)
        residual = points.log_time - self._trend.log_time(
            points.world_size, points.vms, points.size_bytes
        )
        noise = self._quirk(self._at[:, 2]) + _REPEAT / points.repeats
        prior = self._covariance(self._at, self._at)
        trust = np.ones(len(points))
        for _ in range(_REWEIGHTINGS):
            self._factor = linalg.cho_factor(prior + np.diag(noise / trust))
            self._weights = np.asarray(linalg.cho_solve(self._factor, residual), dtype=np.float64)
            left_over = noise / trust * self._weights
            trust = (_STUDENT + 1) / (_STUDENT + np.square(left_over) / noise)

    def predict(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Returns (P,) log seconds and their standard deviations, point by point."""
        chunks = [slice(start, start + _CHUNK) for start in range(0, len(size_bytes), _CHUNK)]
        parts = [self._predict(world_size[c], vms[c], size_bytes[c]) for c in chunks]
        log_time, log_sd = zip(*parts, strict=True)
        return np.concatenate(log_time), np.concatenate(log_sd)

    def _predict(
        self, n: FloatArray, v: FloatArray, size_bytes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        at = _coordinates(n, v, size_bytes)
        cross = self._covariance(at, self._at)
        mean = self._trend.log_time(n, v, size_bytes) + cross @ self._weights
        solved = np.asarray(linalg.cho_solve(self._factor, cross.T), dtype=np.float64)
        explained = np.einsum("ij,ji->i", cross, solved)
        variance = np.maximum(self._prior_variance(at) - explained, 0.0)
        return mean, np.sqrt(variance + self._quirk(at[:, 2]) + _REPEAT)

    def least_log_time(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray, most_per_vm: int
    ) -> FloatArray:
        """Returns (R, S) log seconds that no world of at least so many ranks and VMs undercuts.

        The field is `c(s) + f(log2 V, s) + h(log2 g, s)`, where f and h are linear between the
        measured worlds and constant beyond them: each is least at its end or at a measured world.

        Args:
            world_size: (R,) ranks at least.
            vms: (R,) VMs at least.
            size_bytes: (S,) sizes.
            most_per_vm: worlds have no more ranks than so many times their VMs.
        """
        rows, sizes = len(world_size), len(size_bytes)
        octaves = np.abs(np.log2(size_bytes)[:, None] - self._at[None, :, 2])
        level = _LEVEL + _SHAPE * _matern52(octaves / _SHAPE_OCTAVES)
        step = _STEP + _STEP_SHAPE * _matern32(octaves / _STEP_OCTAVES)
        least = np.broadcast_to(level @ self._weights, (rows, sizes)).copy()
        for axis, rate in enumerate((1.0, _GPUS_OVER_VMS)):
            ends = [self._origin[axis], 0.0, np.log2(most_per_vm)] if axis else [self._origin[axis]]
            knots = np.unique(np.append(self._at[:, axis], ends))
            if axis:
                knots = knots[(knots >= 0) & (knots <= np.log2(most_per_vm))]
            paths = _common_path(
                knots[:, None] - self._origin[axis],
                self._at[None, :, axis] - self._origin[axis],
            )
            values = rate * (paths * self._weights) @ step.T  # (knots, sizes)
            if axis == 1:
                least += values.min(axis=0)
                continue
            at = np.clip(np.log2(vms), knots[0], knots[-1])
            after = np.clip(np.searchsorted(knots, at), 1, max(len(knots) - 1, 1))
            after = np.minimum(after, len(knots) - 1)
            before = np.maximum(after - 1, 0)
            width = np.where(after > before, knots[after] - knots[before], 1.0)
            share = ((at - knots[before]) / width)[:, None]
            here = (1 - share) * values[before] + share * values[after]
            beyond = np.minimum.accumulate(values[::-1], axis=0)[::-1]
            least += np.minimum(here, beyond[after])
        return least + self._trend.least_log_time(world_size, vms, size_bytes, most_per_vm)

    def _covariance(self, a: FloatArray, b: FloatArray) -> FloatArray:
        octaves = np.abs(a[:, None, 2] - b[None, :, 2])
        common = np.zeros_like(octaves)
        for axis, rate in enumerate((1.0, _GPUS_OVER_VMS)):
            origin = self._origin[axis]
            common += rate * _common_path(a[:, None, axis] - origin, b[None, :, axis] - origin)
        return (
            _LEVEL
            + _SHAPE * _matern52(octaves / _SHAPE_OCTAVES)
            + common * (_STEP + _STEP_SHAPE * _matern32(octaves / _STEP_OCTAVES))
        )

    def _prior_variance(self, at: FloatArray) -> FloatArray:
        path = np.abs(at[:, :2] - self._origin) @ np.array([1.0, _GPUS_OVER_VMS])
        return _LEVEL + _SHAPE + path * (_STEP + _STEP_SHAPE)

    def _quirk(self, octave: FloatArray) -> FloatArray:
        """Returns the variance of what one size in one world does by itself."""
        near = np.exp(-0.5 * np.square((octave[:, None] - self._rough_at) / _ROUGH_OCTAVES))
        prior = min(float(np.mean(self._rough)), _ROUGH_PRIOR) if self._rough.size else _ROUGH_PRIOR
        total = near @ self._rough + _ROUGH_PRIOR_POINTS * prior
        return total / (near.sum(axis=1) + _ROUGH_PRIOR_POINTS)


def _coordinates(world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray) -> FloatArray:
    return np.stack([np.log2(vms), np.log2(world_size / vms), np.log2(size_bytes)], axis=1)


def _common_path(a: FloatArray, b: FloatArray) -> FloatArray:
    """Returns the covariance of a Brownian motion that starts at 0 and runs both ways."""
    return np.where(a * b > 0, np.minimum(np.abs(a), np.abs(b)), 0.0)


def _matern32(distance: FloatArray) -> FloatArray:
    scaled = np.sqrt(3) * distance
    return (1 + scaled) * np.exp(-scaled)


def _matern52(distance: FloatArray) -> FloatArray:
    scaled = np.sqrt(5) * distance
    return (1 + scaled + np.square(scaled) / 3) * np.exp(-scaled)


def _roughness(points: Points) -> tuple[FloatArray, FloatArray]:
    """Returns where (octaves) and how far (variance) points stand off their neighbours' line."""
    at: list[FloatArray] = [np.empty(0)]
    variance: list[FloatArray] = [np.empty(0)]
    for world_size, vms in points.worlds():
        here = points.of_world(world_size, vms)
        if len(here) < 3:
            continue
        x, y = np.log2(here.size_bytes), here.log_time
        share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
        residual = y[1:-1] - ((1 - share) * y[:-2] + share * y[2:])
        at.append(x[1:-1])
        variance.append(np.square(residual) / (1 + np.square(share) + np.square(1 - share)))
    return np.concatenate(at), np.concatenate(variance)


def _thinned(points: Points) -> Points:
    """Returns at most `_MOST_SIZES` sizes per world, the nearest to a geometric grid."""
    keep = np.ones(len(points), dtype=np.bool_)
    for world_size, vms in points.worlds():
        here = np.flatnonzero((points.world_size == world_size) & (points.vms == vms))
        if len(here) <= _MOST_SIZES:
            continue
        x = np.log(points.size_bytes[here])
        grid = np.linspace(float(x.min()), float(x.max()), _MOST_SIZES)
        nearest = np.abs(x[None, :] - grid[:, None]).argmin(axis=1)
        keep[here] = False
        keep[here[nearest]] = True
    return points.take(keep)
