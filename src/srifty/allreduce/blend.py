"""The default model: a blend of estimators whose weights grouped cross-validation chooses.

What an answer rests on (`Origin`) decides which weights count, for small and for large messages
apart. The answers are averaged in log time. Intervals are kriging's, scaled so that they held for
nine of ten groups (curve, world) that the cross-validation held out (conformal prediction with
normalised residuals; Lei et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce import splits
from srifty.allreduce.atlas import Atlas, Origin, Sheet
from srifty.allreduce.base import Z90
from srifty.allreduce.boosting import BoostingOptions
from srifty.allreduce.estimator import (
    CurveEstimator,
    Estimator,
    Forecasts,
    alpha_beta,
    interpolated,
    kriging,
)
from srifty.allreduce.recipe import (
    ALPHA_BETA,
    BOOSTED,
    INSIDE,
    INTERPOLATED,
    KRIGING,
    Choice,
    Recipe,
)
from srifty.allreduce.table import LARGE_BYTES, SampleTable
from srifty.core.hardware import InstanceType

if TYPE_CHECKING:
    from srifty.allreduce.boosted import Boosted

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

CONFIDENCE = 0.9
_STEPS = 4  # weights are multiples of 1/4
# How much lower the error must be for moving all weight away from the default, times the number of
# held-out worlds that say so: a few worlds are no reason.
_PRICE_OF_MOVING = 0.05
_LEAST_GROUPS = 5  # fewer say nothing about a 90 % quantile

# Which origins share their weights. Where a world was measured at sizes like these, kriging alone
# answers: it is the one that smooths the measurements.
_REGIMES = {
    "probed": (Origin.PROBED,),
    INSIDE: (Origin.INSIDE,),
    "outside": (Origin.OUTSIDE,),
    "stand-in": (Origin.SIBLING, Origin.FAMILY),
}
# A relative's curve is off by about this factor (log); used until the data say otherwise.
_STAND_IN_SD = 0.4


Progress = Callable[[int, int], None]


class Blend:
    """`auto`: kriging, interpolation, the ring's trend and boosted trees, weighted by the data."""

    def __init__(
        self,
        types: Mapping[str, InstanceType] | None = None,
        *,
        recipe: Recipe | None = None,
        trees: bool = True,
        boosting: BoostingOptions | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Prepares a blend.

        Args:
            types: instance types that are known, by name.
            recipe: weights of an earlier fit; None: cross-validate.
            trees: whether boosted trees may take part.
            boosting: how they are grown.
            progress: told (done, all) after each step of the cross-validation.
        """
        self._types = types or {}
        self._recipe = recipe
        self._trees = trees
        self._boosting = boosting
        self._progress = progress

    def fit(self, table: SampleTable) -> Self:
        """See `Estimator.fit`."""
        recipe = self._recipe or self._cross_validate(table)
        trees = None
        if BOOSTED in recipe.members:
            trees = self._boosted().fit(table)
        return self.restore(Atlas.of(table, self._types), recipe, trees)

    def restore(self, atlas: Atlas, recipe: Recipe, trees: Boosted | None) -> Self:
        """Takes what an earlier fit left; returns itself.

        Args:
            atlas: the measured curves.
            recipe: the weights.
            trees: boosted trees, where the recipe uses them.
        """
        self.atlas, self.recipe, self.trees = atlas, recipe, trees
        self._members: dict[str, Estimator] = {
            name: make().fit_atlas(atlas)
            for name, make in self._curve_makers().items()
            if name == KRIGING or name in recipe.members
        }
        if trees is not None:
            self._members[BOOSTED] = trees
        return self

    def predict(self, questions: SampleTable) -> Forecasts:
        """See `Estimator.predict`."""
        recipe = self.recipe
        answers = {name: member.predict(questions) for name, member in self._members.items()}
        basis = answers[KRIGING]
        log_time, log_sd = basis.log_time.copy(), basis.log_sd.copy()
        large = questions.size_bytes >= LARGE_BYTES
        for regime, origins in _REGIMES.items():
            here = np.isin(basis.origin, origins)
            if regime == "stand-in":
                log_sd[here] = _STAND_IN_SD
            for side in (False, True):
                rows = here & (large == side)
                log_time[rows] = _average(answers, recipe.weights(regime, large=side), rows)
            log_sd[here] *= recipe.scales.get(regime, 1.0)
        if BOOSTED in answers:
            alone = basis.origin == Origin.NOTHING
            log_time[alone] = answers[BOOSTED].log_time[alone]
            log_sd[alone] = _STAND_IN_SD
        return Forecasts(log_time, log_sd, basis.origin)

    def least_log_time(
        self,
        sheet: Sheet,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
        most_per_vm: int,
    ) -> FloatArray | None:
        """Returns (R, S) log seconds that no answer for a world as large on a curve undercuts.

        Whatever an answer rests on, it is an average with one of a few sets of weights; the least
        average of what the members do not undercut is a bound for all.

        Args:
            sheet: a measured curve.
            world_size: (R,) ranks at least.
            vms: (R,) VMs at least.
            size_bytes: (S,) sizes.
            most_per_vm: worlds have no more ranks than so many times their VMs.

        Returns:
            None where trees take part, of which nothing is known.
        """
        members: dict[str, FloatArray] = {}
        for name, member in self._members.items():
            if isinstance(member, CurveEstimator):
                members[name] = member.least_log_time(
                    sheet, world_size, vms, size_bytes, most_per_vm
                )
        worlds = self.atlas.sheets[sheet].worlds()
        measured = np.any([(n >= world_size) & (v >= vms) for n, v in worlds], axis=0)
        inside = max(n for n, _ in worlds) > world_size
        always = np.ones_like(inside)
        least = np.where(measured[:, None], members[KRIGING], np.inf)
        large = size_bytes >= LARGE_BYTES
        for regime, rows in (("probed", measured), (INSIDE, inside), ("outside", always)):
            for side in (False, True):
                weights = {
                    n: w for n, w in self.recipe.weights(regime, large=side).items() if w > 0
                }
                if not weights.keys() <= members.keys():
                    return None
                here = np.ix_(rows, large == side)
                mean = np.sum([w * members[name][here] for name, w in weights.items()], axis=0)
                least[here] = np.minimum(least[here], mean)
        return least

    def _curve_makers(self) -> dict[str, Callable[[], CurveEstimator]]:
        return {
            KRIGING: partial(kriging, self._types),
            INTERPOLATED: partial(interpolated, self._types),
            ALPHA_BETA: partial(alpha_beta, self._types),
        }

    def _boosted(self) -> Boosted:
        # XGBoost takes a third of a second to import; a blend without trees spares it.
        from srifty.allreduce.boosted import Boosted

        return Boosted(self._types, self._boosting)

    def _cross_validate(self, table: SampleTable) -> Recipe:
        """Returns the weights and scales that do best on what each fold holds out."""
        experiments = [
            *(("probed", split) for split in splits.folds_outside(table, probes=True)),
            *((INSIDE, split) for split in splits.folds_inside(table)),
            *(("outside", split) for split in splits.folds_outside(table, probes=False)),
            *(("stand-in", split) for split in splits.folds_by_curve(table)),
        ]
        trials: dict[str, list[_Trial]] = {}
        for done, (regime, split) in enumerate(experiments):
            train, test = table.take(split.train), table.take(split.test)
            questions = test.questions()
            atlas = Atlas.of(train, self._types)
            answers = {
                name: make().fit_atlas(atlas).predict(questions)
                for name, make in self._curve_makers().items()
            }
            if self._trees:
                answers[BOOSTED] = self._boosted().fit(train).predict(questions)
            trials.setdefault(regime, []).append(_Trial(test, answers))
            if self._progress is not None:
                self._progress(done + 1, len(experiments))
        choices = [
            choice
            for regime, found in trials.items()
            for large in (False, True)
            for choice in _choose(regime, found, large=large)
        ]
        recipe = Recipe(tuple(choices))
        scales = {
            regime: scale
            for regime, found in trials.items()
            for scale in _scale(regime, found, recipe)
        }
        return Recipe(tuple(choices), scales)


@dataclass(frozen=True)
class _Trial:
    """What the members said of rows that were held out."""

    test: SampleTable
    answers: Mapping[str, Forecasts]

    def of_regime(self, regime: str) -> BoolArray:
        """Returns the rows whose answers rest on what the regime is about."""
        return np.isin(self.answers[KRIGING].origin, _REGIMES[regime])


def _average(
    answers: Mapping[str, Forecasts], weights: Mapping[str, float], rows: BoolArray
) -> FloatArray:
    """Returns the weighted mean of log time over the members that take part."""
    total = np.zeros(int(rows.sum()))
    for name, weight in weights.items():
        if weight > 0:
            total += weight * answers[name].log_time[rows]
    return total


def _choose(regime: str, trials: list[_Trial], *, large: bool) -> Iterator[Choice]:
    """Yields the blend of least mean error over families, if any row was held out."""
    names = list(trials[0].answers)
    logs: list[FloatArray] = []
    families: list[str] = []
    groups = 0
    for trial in trials:
        rows = trial.of_regime(regime) & ((trial.test.size_bytes >= LARGE_BYTES) == large)
        if not rows.any():
            continue
        truth = np.log(trial.test.time_s[rows])
        logs.append(np.stack([trial.answers[n].log_time[rows] - truth for n in names]))
        families += [trial.test.curves[c].instance_type for c in trial.test.curve[rows]]
        groups += len(set(zip(trial.test.curve[rows], trial.test.world_size[rows], strict=True)))
    if not logs:
        return
    errors = np.concatenate(logs, axis=1)
    _, family = np.unique(families, return_inverse=True)

    def score(weights: FloatArray) -> float:
        relative = np.abs(np.expm1(weights @ errors))
        return float(np.mean(np.bincount(family, relative) / np.bincount(family)))

    grid = [
        np.array(parts) / _STEPS
        for parts in product(range(_STEPS + 1), repeat=len(names))
        if sum(parts) == _STEPS
    ]
    usual = Recipe.default(regime, large=large)
    default = np.array([usual.get(name, 0.0) for name in names])

    def price(weights: FloatArray) -> float:
        return _PRICE_OF_MOVING / groups * float(np.abs(weights - default).sum()) / 2

    best = min(grid, key=lambda weights: score(weights) + price(weights))
    yield Choice(
        regime,
        large,
        dict(zip(names, (float(w) for w in best), strict=True)),
        score(best),
        {name: score(row) for name, row in zip(names, np.eye(len(names)), strict=True)},
        groups,
    )


def _scale(regime: str, trials: list[_Trial], recipe: Recipe) -> Iterator[float]:
    """Yields the factor on the standard deviations, if enough groups were held out."""
    groups: dict[str, list[FloatArray]] = {}
    for trial in trials:
        here = trial.of_regime(regime)
        large = trial.test.size_bytes >= LARGE_BYTES
        log_time = np.full(len(trial.test), np.nan)
        for side in (False, True):
            rows = here & (large == side)
            log_time[rows] = _average(trial.answers, recipe.weights(regime, large=side), rows)
        sd = trial.answers[KRIGING].log_sd if regime != "stand-in" else _STAND_IN_SD
        miss = np.abs(log_time - np.log(trial.test.time_s)) / sd / Z90
        for curve, world_size in {
            *zip(trial.test.curve[here], trial.test.world_size[here], strict=True)
        }:
            group = here & (trial.test.curve == curve) & (trial.test.world_size == world_size)
            kind = trial.test.curves[int(curve)].instance_type
            groups.setdefault(kind, []).append(miss[group])
    if sum(map(len, groups.values())) < _LEAST_GROUPS:
        return
    # Every family counts alike, and in it every group, however many sizes it has.
    values = np.concatenate([group for found in groups.values() for group in found])
    share = np.concatenate(
        [
            np.full(len(group), 1 / len(group) / len(found) / len(groups))
            for found in groups.values()
            for group in found
        ]
    )
    order = np.argsort(values)
    reached = int(np.searchsorted(np.cumsum(share[order]), CONFIDENCE))
    yield float(values[order][min(reached, len(values) - 1)])
