"""Why one plan beats another: the difference of their objectives, part by part."""

from __future__ import annotations

from srifty.core.cluster import ClusterConfig
from srifty.core.job import Job, Objective
from srifty.core.plan import Plan
from srifty.simulator.iteration import Simulator
from srifty.simulator.perturbed import with_spread
from srifty.simulator.predictor import Predictor
from srifty.simulator.tables import ConfigTable

_S_PER_HOUR = 3600.0


def excess_parts(job: Job, chosen: Plan, rival: Plan, predictor: Predictor) -> dict[str, float]:
    """Returns what the rival's objective has in excess, by cause; the parts sum to the whole.

    Time is split into the parts of the iterations, and what lost VMs add. A bill is price times
    time: the difference of a product `p t` is `Δp·t̄ + Δt·p̄` with the means of both plans, so that
    no part depends on the order.

    Args:
        job: the job of both.
        chosen: the plan that won.
        rival: the plan that lost.
        predictor: what forecast them; a simulator also tells what waiting for the slowest costs.
    """
    seconds = _time_parts(job, rival, predictor)
    for name, value in _time_parts(job, chosen, predictor).items():
        seconds[name] -= value
    extra_s = rival.forecast.time_s.mean - chosen.forecast.time_s.mean
    # All else that is not iterations takes all plans equally long.
    seconds["checkpoints"] = extra_s - sum(seconds.values())
    if job.objective is Objective.TIME:
        return seconds
    prices = [p.config.usd_per_hour + job.extra_usd_per_hour for p in (chosen, rival)]
    launch_s = job.overheads.launch_s
    billed_s = [p.forecast.time_s.mean - launch_s for p in (chosen, rival)]
    mean_price = sum(prices) / 2 / _S_PER_HOUR
    parts = {name: value * mean_price for name, value in seconds.items()}
    parts["price"] = (prices[1] - prices[0]) * sum(billed_s) / 2 / _S_PER_HOUR
    parts["traffic"] = rival.forecast.traffic_usd - chosen.forecast.traffic_usd
    excess = rival.forecast.cost_usd.mean - chosen.forecast.cost_usd.mean
    # The least that is billed, and VMs that are not billed while they are missing.
    parts["billing"] = excess - sum(parts.values())
    return parts


def _time_parts(job: Job, plan: Plan, predictor: Predictor) -> dict[str, float]:
    """Returns the seconds of a whole job by cause; what is fixed for all plans is left out."""
    iteration, count = plan.forecast.iteration, job.iterations
    compute_s = iteration.forward_s + iteration.backward_s + iteration.optimizer_s
    parts_s = compute_s + iteration.exposed_exchange_s
    calm_s = _without_spread_s(job, plan.config, predictor)
    straggling_s = 0.0 if calm_s is None else compute_s - calm_s
    told = plan.forecast.interruptions
    return {
        "compute": count * (compute_s - straggling_s),
        "straggling": count * straggling_s,
        "communication": count * iteration.exposed_exchange_s,
        "input": count * max(iteration.mean_s - parts_s, 0.0),
        "lost VMs": 0.0 if told is None else told.lost_s,
    }


def _without_spread_s(job: Job, config: ClusterConfig, predictor: Predictor) -> float | None:
    """Returns what an iteration computes if no GPU is slower than another of its type."""
    if not isinstance(predictor, Simulator):
        return None
    table = ConfigTable.from_configs([config])
    calm = with_spread(predictor, 0.0).predict(job, table).row(0)
    return calm.forward_s + calm.backward_s + calm.optimizer_s
