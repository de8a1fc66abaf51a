"""How well the latency model predicts batch sizes that were not probed, against two baselines."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from srifty.compute.fit import fit_latency
from srifty.compute.piecewise import PiecewiseLinear

Floats = NDArray[np.float64]

# Two errors closer than this (in percentage points) are a tie.
TIE_PERCENT = 1e-6


@dataclass(frozen=True)
class CurveScore:
    """Errors of three models fitted to the same probes of one curve.

    Attributes:
        probes: batch sizes used for fitting, ascending.
        evaluated: number of batch sizes the errors are taken over.
        model_percent: mean absolute percentage error of `fit_latency`.
        line_percent: the same for one relative least-squares line.
        interpolation_percent: the same for linear interpolation between the probes.
    """

    probes: tuple[float, ...]
    evaluated: int
    model_percent: float
    line_percent: float
    interpolation_percent: float


@dataclass(frozen=True)
class ScoreSummary:
    """Errors over several curves; every curve counts once.

    Attributes:
        curves: number of curves.
        model_mean_percent: mean of `CurveScore.model_percent`.
        model_median_percent: median of the same.
        line_mean_percent: mean of `CurveScore.line_percent`.
        line_median_percent: median of the same.
        interpolation_mean_percent: mean of `CurveScore.interpolation_percent`.
        interpolation_median_percent: median of the same.
        wins: curves on which the model beats interpolation.
        losses: curves on which interpolation beats the model.
        worst_loss_points: largest excess of the model's error over interpolation's, in percentage
            points; negative if the model wins everywhere.
    """

    curves: int
    model_mean_percent: float
    model_median_percent: float
    line_mean_percent: float
    line_median_percent: float
    interpolation_mean_percent: float
    interpolation_median_percent: float
    wins: int
    losses: int
    worst_loss_points: float


def choose_probes(batches: ArrayLike, count: int) -> tuple[float, ...]:
    """Returns `count` of the batch sizes, nearest to a geometric grid over their whole range.

    The smallest and the largest are always among them. Grid points are served in ascending order;
    one whose nearest size (in log space, the smaller on a tie) is taken gets the nearest free one.

    Args:
        batches: the sizes to choose from, positive; repeats count once.
        count: how many, at least 2 and at most the number of distinct sizes.

    Raises:
        ValueError: batches is empty or not positive and finite, or count is out of range.
    """
    sizes = np.unique(np.asarray(batches, dtype=np.float64))
    if sizes.size == 0 or not np.all(np.isfinite(sizes) & (sizes > 0.0)):
        raise ValueError(f"batches must be positive and finite, got {sizes}; drop other values")
    if not 2 <= count <= sizes.size:
        raise ValueError(
            f"count must be between 2 and the {sizes.size} distinct batch sizes, got {count};"
            " probe more sizes or ask for fewer"
        )
    free = [int(index) for index in range(1, sizes.size - 1)]
    chosen = [0, sizes.size - 1]
    octaves = np.log(sizes)
    for target in np.linspace(octaves[0], octaves[-1], count, dtype=np.float64)[1:-1]:
        # Rounded: a tie is a tie, whatever the last bit of the logarithm says.
        nearest = min(free, key=lambda index: round(abs(float(octaves[index] - target)), 12))
        free.remove(nearest)
        chosen.append(nearest)
    return tuple(sizes[sorted(chosen)].tolist())


def evaluate_curve(
    batches: ArrayLike,
    latencies_s: ArrayLike,
    *,
    probes: int = 4,
    errors: Literal["held-out", "all"] = "held-out",
) -> CurveScore:
    """Returns the errors of model and baselines after fitting to a few probes of a full curve.

    Args:
        batches: all measured batch sizes, distinct, positive, any order.
        latencies_s: their latencies in seconds, positive.
        probes: how many are shown to the models, chosen by `choose_probes`.
        errors: over the sizes that were not probed, or over all.

    Raises:
        ValueError: bad curve (see `fit_latency`), repeated sizes, a probe count out of range, or no
            size is left to evaluate.
    """
    size = np.asarray(batches, dtype=np.float64)
    latency = np.asarray(latencies_s, dtype=np.float64)
    if size.shape != latency.shape or len(np.unique(size)) != size.size:
        raise ValueError(
            f"batches must be distinct and match latencies_s, got shapes {size.shape} and"
            f" {latency.shape}; average repeated measurements first"
        )
    chosen = choose_probes(size, probes)
    probed = np.isin(size, chosen)
    judged = ~probed if errors == "held-out" else np.ones_like(probed)
    if not judged.any():
        raise ValueError(f"probes={probes} leaves no batch size to evaluate; use fewer probes")
    order = np.argsort(size[probed])
    shown, seen_s = size[probed][order], latency[probed][order]

    def percent(predicted: Floats) -> float:
        return 100.0 * float(np.mean(np.abs(predicted / latency[judged] - 1.0)))

    rows = np.column_stack((1.0 / seen_s, shown / seen_s))
    intercept, slope = np.linalg.lstsq(rows, np.ones(len(shown)), rcond=None)[0]
    return CurveScore(
        probes=chosen,
        evaluated=int(judged.sum()),
        model_percent=percent(fit_latency(shown, seen_s).predict(size[judged])),
        line_percent=percent(intercept + slope * size[judged]),
        interpolation_percent=percent(
            PiecewiseLinear.from_points(shown, seen_s).predict(size[judged])
        ),
    )


def summarise(scores: Iterable[CurveScore]) -> ScoreSummary:
    """Returns means, medians, wins and losses over curves.

    Args:
        scores: one or more curve scores.

    Raises:
        ValueError: there are no scores.
    """
    listed = list(scores)
    if not listed:
        raise ValueError(
            "scores must hold at least one CurveScore, got none; evaluate a curve first"
        )
    model = np.array([score.model_percent for score in listed])
    line = np.array([score.line_percent for score in listed])
    chord = np.array([score.interpolation_percent for score in listed])
    excess = model - chord
    return ScoreSummary(
        curves=len(listed),
        model_mean_percent=float(model.mean()),
        model_median_percent=float(np.median(model)),
        line_mean_percent=float(line.mean()),
        line_median_percent=float(np.median(line)),
        interpolation_mean_percent=float(chord.mean()),
        interpolation_median_percent=float(np.median(chord)),
        wins=int((excess < -TIE_PERCENT).sum()),
        losses=int((excess > TIE_PERCENT).sum()),
        worst_loss_points=float(excess.max()),
    )
