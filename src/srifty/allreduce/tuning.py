"""The settings of boosted trees, searched by Optuna: least error on held-out worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from srifty.allreduce.boosted import Boosted
from srifty.allreduce.boosting import BoostingOptions
from srifty.allreduce.splits import Split, folds_inside, folds_outside
from srifty.allreduce.table import SampleTable
from srifty.core.hardware import InstanceType
from srifty.errors import InputError


def tune(
    table: SampleTable,
    types: Mapping[str, InstanceType],
    *,
    trials: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> BoostingOptions:
    """Returns the settings with the least mean absolute relative error of held-out times.

    The folds are the blend's own: inner worlds and upper ends of every curve.

    Args:
        table: measured samples.
        types: instance types that are known, by name.
        trials: how many settings to try; the defaults are the first.
        seed: of the search.
        progress: told (done, all) after each trial.

    Raises:
        InputError: Optuna is not installed, or the samples hold too few worlds.
    """
    try:
        import optuna
    except ModuleNotFoundError:
        raise InputError('tuning needs Optuna: pip install "srifty[tune]"') from None
    folds = [*folds_inside(table), *folds_outside(table, probes=True)]
    if not folds:
        raise InputError("tuning needs a curve with at least two multi-VM world sizes")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    defaults = BoostingOptions()
    study.enqueue_trial({name: getattr(defaults, name) for name in _SEARCHED})

    def objective(trial: Any) -> float:
        options = replace(
            defaults,
            rounds=trial.suggest_int("rounds", 50, 800, log=True),
            learning_rate=trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
            max_depth=trial.suggest_int("max_depth", 3, 10),
            min_child_weight=trial.suggest_float("min_child_weight", 0.5, 10, log=True),
            subsample=trial.suggest_float("subsample", 0.5, 1.0),
            reg_lambda=trial.suggest_float("reg_lambda", 0.1, 10, log=True),
            objective=trial.suggest_categorical(
                "objective", ["reg:squarederror", "reg:pseudohubererror"]
            ),
        )
        error = float(np.mean([_error(table, types, fold, options) for fold in folds]))
        if progress is not None:
            progress(trial.number + 1, trials)
        return error

    study.optimize(objective, n_trials=trials)
    return replace(defaults, **study.best_params)


_SEARCHED = (
    "rounds",
    "learning_rate",
    "max_depth",
    "min_child_weight",
    "subsample",
    "reg_lambda",
    "objective",
)


def _error(
    table: SampleTable,
    types: Mapping[str, InstanceType],
    fold: Split,
    options: BoostingOptions,
) -> float:
    """Returns the mean absolute relative error, every instance type alike."""
    train, test = table.take(fold.train), table.take(fold.test)
    forecasts = Boosted(types, options).fit(train).predict(test.questions())
    error = np.abs(np.exp(forecasts.log_time) / test.time_s - 1)
    kinds = np.array([curve.instance_type for curve in test.curves])[test.curve]
    return float(np.mean([np.mean(error[kinds == kind]) for kind in np.unique(kinds)]))
