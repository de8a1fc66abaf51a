"""The part of the search space that uses one instance type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from srifty.core.job import BatchRule, Job
from srifty.planner.assemble import assemble
from srifty.planner.space import SpaceRule, enumerate_splits
from srifty.planner.supply import TypeSupply
from srifty.simulator.tables import ConfigTable

# Of one type there are few configurations by powers of two; of any batches so many are listed.
_MOST_ROWS = 20_000


def one_type_configs(job: Job, places: Sequence[Sequence[TypeSupply]]) -> ConfigTable:
    """Returns the configurations that use one instance type, in all places.

    Several passes and other batches than powers of two come in where there is nothing without, as
    in the search for a plan.

    Args:
        job: gives the global batch and the rules.
        places: what can be had in each place.
    """
    rule = SpaceRule(job.batch_rule, accumulate=job.accumulate)
    several = replace(rule, accumulate=True)
    wider = (rule, several, replace(rule, batch_rule=BatchRule.ANY))
    configs = ConfigTable.concatenate([])
    for each in (*wider, replace(several, batch_rule=BatchRule.ANY)):
        configs = _configs(job, places, each)
        if len(configs):
            break
    return configs


def _configs(job: Job, places: Sequence[Sequence[TypeSupply]], rule: SpaceRule) -> ConfigTable:
    tables: list[ConfigTable] = []
    for supply in (supply for place in places for supply in place):
        splits = enumerate_splits([supply], job.global_batch, rule, most_rows=_MOST_ROWS)
        configs = assemble([supply], splits, rule.batch_rule).configs
        smallest = configs.samples_per_vm // configs.gpus_used // configs.accumulation
        fits = ((configs.count == 0) | (smallest >= supply.batches.least)).all(axis=1)
        tables.append(configs.take(fits.nonzero()[0]))
    configs = ConfigTable.concatenate(tables)
    return configs.take(configs.distinct())
