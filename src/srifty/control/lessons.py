"""What a slow-down of one plan teaches about the others."""

from __future__ import annotations

from collections.abc import Sequence

from srifty.control.blame import Blame, Culprit
from srifty.control.learned import Learned, network_factor
from srifty.control.planning import Planning
from srifty.core.cluster import ClusterConfig
from srifty.core.events import WorkerStep


def lessons(
    planning: Planning, config: ClusterConfig, steps: Sequence[WorkerStep], found: Blame
) -> Learned | None:
    """Returns what is to be carried over to other plans; None: nothing.

    A slow network makes all plans slow that use it; workers that are slow alike say that the
    profiles are wrong; one slow VM says nothing of others.

    Args:
        planning: what the forecasts were made from, without earlier lessons.
        config: what trains.
        steps: where each worker's time goes, by rank.
        found: what was blamed.
    """
    if found.culprit is Culprit.NETWORK:
        exposed_s = min(step.exchange_s for step in steps)
        return Learned(network_factor(planning.predictor, planning.job, config, exposed_s))
    if found.culprit is Culprit.ALL_WORKERS:
        return Learned(compute=_compute_factors(planning, config, steps))
    return None


def _compute_factors(
    planning: Planning, config: ClusterConfig, steps: Sequence[WorkerStep]
) -> dict[str, float]:
    """Returns how many times as long as forecast each GPU model's fastest worker computes."""
    forecast_s = planning.paces_s(config)
    factors: dict[str, float] = {}
    rank = 0
    for group in config.groups:
        gpu = group.offer.instance_type.gpu
        for _ in range(group.count * group.gpus_used):
            factor = steps[rank].compute_s / max(forecast_s[group], 1e-9)
            factors[gpu] = min(factors.get(gpu, factor), factor)
            rank += 1
    return {gpu: max(factor, 1.0) for gpu, factor in factors.items()}
