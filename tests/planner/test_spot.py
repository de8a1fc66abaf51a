"""Plans whose VMs can be lost: against every mix of spot and on-demand VMs."""

from dataclasses import replace
from itertools import product

import pytest

from srifty.core import ClusterConfig, Limits, Market, Objective, Overheads
from srifty.core.interruptions import InterruptionRate
from srifty.planner import places_of, plan
from srifty.simulator import ConfigTable, forecast_jobs

from .brute_force import all_configs
from .conftest import make_market
from .random_problems import best_by_force, random_problem

OVERHEADS = Overheads(launch_s=100.0, checkpoint_auto=True, checkpoint_s=3.0)


def lossy_market(rate, spread=0.5):
    """The small market; spot VMs of both types can be lost, and each type can be had both ways."""
    market = make_market(quotas=(3, 1, 2))
    losses = InterruptionRate(rate, spread)
    offers = [
        replace(o, interruptions=losses) if o.market is Market.SPOT else o for o in market.offers
    ]
    slow = next(o for o in offers if o.instance_type.gpu == "Slow")
    steady = replace(
        slow, market=Market.ON_DEMAND, usd_per_hour=0.8, interruptions=InterruptionRate(0.0)
    )
    return replace(market, offers=(*offers, steady))


def every_mix(config: ClusterConfig, offers):
    """Yields the configuration with each of its VMs on each market of its type, within quotas."""
    choices = [
        [o for o in offers if o.instance_type == g.offer.instance_type] for g in config.groups
    ]
    for chosen in product(*choices):
        if all(chosen.count(offer) <= offer.quota for offer in set(chosen)):
            groups = zip(config.groups, chosen, strict=True)
            yield ClusterConfig(tuple(replace(g, offer=offer) for g, offer in groups))


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("rate", [0.5, 8.0])
def test_no_mix_of_spot_and_on_demand_is_better(objective, rate):
    market = lossy_market(rate)
    job = market.job(32, objective=objective, overheads=OVERHEADS, iterations=4000)
    configs = [
        mix
        for config in all_configs(job, market.offers, market.ranges)
        for mix in every_mix(config, market.offers)
    ]
    table = ConfigTable.from_configs(configs)
    jobs = forecast_jobs(job, table, market.simulator.predict(job, table))
    best = (jobs.time_mean_s if objective is Objective.TIME else jobs.cost_mean_usd).min()
    found = market.plan(job).plan.forecast
    value = found.time_s if objective is Objective.TIME else found.cost_usd
    assert value.mean == pytest.approx(best, rel=1e-5)  # VMs in other groups, other roundings


def test_the_more_vms_are_lost_the_fewer_are_rented():
    def spot_vms(rate):
        market = lossy_market(rate)
        job = market.job(64, overheads=OVERHEADS, iterations=20_000)
        groups = market.plan(job).plan.config.groups
        return sum(g.count for g in groups if g.offer.market is Market.SPOT)

    found = [spot_vms(rate) for rate in (0.0, 0.5, 60.0)]
    assert found[0] > 0
    assert found[-1] == 0
    assert found == sorted(found, reverse=True)


def test_limits_hold_at_the_asked_confidence_with_losses():
    market = lossy_market(0.5)
    free = market.job(64, overheads=OVERHEADS, iterations=4000)
    cheapest = market.plan(free).plan.forecast
    # Its mean is in time, its 90 % are not: a surer plan is chosen, and its odds are what is asked.
    deadline_s = (cheapest.time_s.mean + cheapest.time_s.p90) / 2
    job = replace(free, limits=Limits(deadline_s))
    chosen = market.plan(job).plan.forecast
    assert chosen.success_probability >= 0.9
    assert chosen.time_s.p90 <= deadline_s
    assert chosen.cost_usd.mean > cheapest.cost_usd.mean
    by_mean = market.plan(replace(free, limits=Limits(deadline_s, confidence=0.5))).plan.forecast
    assert by_mean == replace(cheapest, success_probability=by_mean.success_probability)


def test_types_that_can_be_had_both_ways_come_with_and_without_spot():
    market = lossy_market(0.1)
    places = places_of(market.offers, allow_cross_zone=False)
    kinds = [{o.label for o in place if o.market is Market.SPOT} for place in places]
    both = {"slow.1x (spot)", "twin.2x (spot)"}
    assert sorted(map(sorted, kinds)) == sorted(
        map(sorted, [both, {"slow.1x (spot)"}, {"twin.2x (spot)"}, set()])
    )
    calm = places_of(make_market().offers, allow_cross_zone=False)
    assert len(calm) == 1


def test_a_job_without_checkpoints_is_warned_of():
    market = lossy_market(0.2)
    offers = tuple(o for o in market.offers if o.market is Market.SPOT)
    job = market.job(64, overheads=Overheads(), iterations=4000)
    result = plan(job, offers, market.simulator, market.ranges)
    assert any("No checkpoints are stated" in sentence for sentence in result.warnings)
    assert result.plan.forecast.interruptions.checkpoint_every is None
    saving = plan(replace(job, overheads=OVERHEADS), offers, market.simulator, market.ranges)
    assert not any("No checkpoints" in sentence for sentence in saving.warnings)
    assert any("A lost VM stops the whole job" in sentence for sentence in saving.assumptions)


@pytest.mark.parametrize("part", range(2))
def test_a_search_finds_the_plan_that_all_configurations_hold_with_losses(part):
    """Losses only make jobs longer and dearer, so that the search's bounds still hold."""
    looked_at = 0
    for seed in range(1000 * part, 1000 * part + 12):
        problem = random_problem(seed)
        if best_by_force(problem, 300) is None:  # too large to be looked at as a whole
            continue
        rate = InterruptionRate((0.05, 0.5, 4.0)[seed % 3], 0.7)
        offers = tuple(
            replace(o, interruptions=rate) if o.market is Market.SPOT else o for o in problem.offers
        )
        job = replace(problem.job, overheads=OVERHEADS)
        found = [
            plan(
                job, offers, problem.simulator, problem.ranges,
                exhaustive_rows=rows, time_limit_s=600.0,
            )
            for rows in (-1, 10**6)
        ]  # fmt: skip
        assert (found[0].plan is None) == (found[1].plan is None), seed
        if found[1].plan is None or any(g.accumulation > 1 for g in found[1].plan.config.groups):
            continue
        by_time = job.objective is Objective.TIME
        values = [
            (r.plan.forecast.time_s if by_time else r.plan.forecast.cost_usd).mean for r in found
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-6), seed
        looked_at += 1
    assert looked_at > 1
