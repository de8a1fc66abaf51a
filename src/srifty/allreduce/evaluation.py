"""How far each estimator is off on samples that it did not see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import Z90
from srifty.allreduce.blend import Blend
from srifty.allreduce.boosted import MTU_BYTES, Boosted, BoostingOptions, PaperBoosted
from srifty.allreduce.estimator import Estimator, alpha_beta, interpolated, kriging
from srifty.allreduce.splits import By, splits
from srifty.allreduce.table import LARGE_BYTES, SampleTable
from srifty.core.hardware import InstanceType
from srifty.errors import InputError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# A family that fewer held-out (curve, world size) pairs stand for is shown, not judged.
LEAST_PAIRS = 3

SIZE_CLASSES: Mapping[str, Callable[[FloatArray], BoolArray]] = {
    "small": lambda size: size <= MTU_BYTES,
    "large": lambda size: size > MTU_BYTES,
    "mib": lambda size: size >= LARGE_BYTES,
    "all": lambda size: size > 0,
}


@dataclass(frozen=True)
class Scored:
    """Every held-out sample with what each estimator said of it; P rows.

    Attributes:
        table: the held-out samples.
        forecast_s: by estimator, (P,) seconds.
        low_s: (P,) lower end of `auto`'s 90 % interval; NaN where `auto` was not asked.
        high_s: (P,) its upper end.
        floored: how many forecasts of the paper's form were zero or negative.
        splits: number of experiments.
    """

    table: SampleTable
    forecast_s: Mapping[str, FloatArray]
    low_s: FloatArray
    high_s: FloatArray
    floored: int
    splits: int

    def families(self) -> dict[str, BoolArray]:
        """Returns the rows of each instance type, the family of its curves."""
        kinds = np.array([curve.instance_type for curve in self.table.curves])[self.table.curve]
        return {str(kind): kinds == kind for kind in dict.fromkeys(kinds.tolist())}

    def pairs(self, rows: BoolArray) -> int:
        """Returns how many (curve, world size) the rows hold."""
        curve, world = self.table.curve[rows], self.table.world_size[rows]
        return len({*zip(curve.tolist(), world.tolist(), strict=True)})

    def mape(self, name: str, rows: BoolArray, size_class: str) -> float:
        """Returns the mean absolute relative error of times; NaN where there are none."""
        rows = rows & SIZE_CLASSES[size_class](self.table.size_bytes)
        error = np.abs(self.forecast_s[name][rows] / self.table.time_s[rows] - 1)
        return float(np.mean(error)) if len(error) else float("nan")

    def coverage(self, rows: BoolArray) -> float:
        """Returns the share of times inside the 90 % interval; NaN where there are none."""
        rows = rows & np.isfinite(self.low_s)
        inside = (self.low_s <= self.table.time_s) & (self.table.time_s <= self.high_s)
        return float(np.mean(inside[rows])) if rows.any() else float("nan")


def estimators(
    types: Mapping[str, InstanceType], options: BoostingOptions | None = None
) -> dict[str, Callable[[], Estimator]]:
    """Returns how each estimator is made, by name."""
    return {
        "auto": partial(Blend, types, boosting=options),
        "kriging": partial(kriging, types),
        "interpolated": partial(interpolated, types),
        "boosted": partial(Boosted, types, options),
        "alpha-beta": partial(alpha_beta, types),
        "paper": partial(PaperBoosted, types, options),
    }


def evaluate(
    table: SampleTable,
    by: By,
    makers: Mapping[str, Callable[[], Estimator]],
    *,
    probes: bool = True,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Scored:
    """Trains every estimator on each split's training rows and asks it for the held-out ones.

    Args:
        table: measured samples.
        by: what is held out together.
        makers: how each estimator is made, by name.
        probes: whether three sizes of a held-out largest world may be learned from.
        seed: of the random split.
        progress: told (done, all) after each split.

    Raises:
        InputError: the samples allow no such split.
    """
    experiments = list(splits(table, by, probes=probes, seed=seed))
    if not experiments:
        raise InputError(_WHY_NONE[by])
    rows: list[NDArray[np.int64]] = []
    said: dict[str, list[FloatArray]] = {name: [] for name in makers}
    low: list[FloatArray] = []
    high: list[FloatArray] = []
    floored = 0
    for done, split in enumerate(experiments):
        train, test = table.take(split.train), table.take(split.test)
        rows.append(np.flatnonzero(split.test))
        spread = np.full(len(test), np.nan)
        for name, make in makers.items():
            estimator = make().fit(train)
            forecasts = estimator.predict(test.questions())
            said[name].append(np.exp(forecasts.log_time))
            if name == "auto":
                spread = forecasts.log_sd
            if isinstance(estimator, PaperBoosted):
                floored += estimator.floored
        centre = np.log(said["auto"][-1]) if "auto" in said else np.full(len(test), np.nan)
        low.append(np.exp(centre - Z90 * spread))
        high.append(np.exp(centre + Z90 * spread))
        if progress is not None:
            progress(done + 1, len(experiments))
    return Scored(
        table=table.take(np.concatenate(rows)),
        forecast_s={name: np.concatenate(parts) for name, parts in said.items()},
        low_s=np.concatenate(low),
        high_s=np.concatenate(high),
        floored=floored,
        splits=len(experiments),
    )


_WHY_NONE = {
    By.WORLD_SIZE: "no curve has three multi-VM world sizes; import more, or choose another --by",
    By.LARGEST_WORLD_SIZE: (
        "no curve has two multi-VM world sizes; import more, or choose another --by"
    ),
    By.CURVE: "there are no samples to hold out",
    By.ALLOCATION: (
        "no world was measured on two allocations (source and run); import repeats, or choose "
        "another --by"
    ),
    By.RANDOM: "there are no samples to hold out",
}


@dataclass(frozen=True)
class NoiseFloor:
    """How much repeats of one configuration differ: no estimator can do better.

    Attributes:
        mape: by size class, the least mean absolute relative error that a constant per
            configuration leaves; NaN where nothing was repeated.
        samples: how many samples have a repeat.
    """

    mape: Mapping[str, float]
    samples: int


def noise_floor(table: SampleTable) -> NoiseFloor:
    """Returns the noise floor, from samples that share curve, world, size and transfers."""
    keys = np.stack(
        [table.curve, table.world_size, table.vms, table.size_bytes, table.concurrent], axis=1
    )
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    errors = np.full(len(table), np.nan)
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if len(rows) > 1:
            errors[rows] = np.abs(_best_constant(table.time_s[rows]) / table.time_s[rows] - 1)
    repeated = np.isfinite(errors)
    mape = {
        name: float(np.mean(errors[rows])) if rows.any() else float("nan")
        for name, chosen in SIZE_CLASSES.items()
        for rows in [repeated & chosen(table.size_bytes)]
    }
    return NoiseFloor(mape, int(repeated.sum()))


def _best_constant(times: Sequence[float] | FloatArray) -> float:
    """Returns the value of least mean absolute relative error: a median weighted by 1/t."""
    ordered = np.sort(np.asarray(times, dtype=np.float64))
    share = np.cumsum(1 / ordered) / np.sum(1 / ordered)
    return float(ordered[int(np.searchsorted(share, 0.5))])
