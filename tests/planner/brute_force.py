"""Every configuration of a small space, by plain loops: the planner's oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from srifty.core import ClusterConfig, Job, Offer, VmGroup
from srifty.core.job import BatchRule
from srifty.planner import BatchRange
from srifty.simulator import ConfigTable, Simulator, forecast_jobs


def all_configs(
    job: Job, offers: Sequence[Offer], ranges: dict[str, BatchRange]
) -> Iterator[ClusterConfig]:
    """Yields each way to deal the global batch: equal local batches within a type, VMs filled one
    after the other, cheapest market first; under `any` one type's batches may differ by one."""
    kinds = list(dict.fromkeys(offer.instance_type for offer in offers))
    choices = []
    for kind in kinds:
        vms = sum(o.quota for o in offers if o.instance_type == kind)
        limits = ranges[kind.gpu]
        own = [(0, 0)]
        for workers in range(1, vms * kind.gpus + 1):
            for samples in range(workers * limits.least, workers * limits.most + 1):
                equal = samples % workers == 0
                local = samples // workers
                if job.batch_rule is BatchRule.POWER_OF_TWO:
                    if equal and local & (local - 1) == 0:
                        own.append((workers, samples))
                elif equal or local + 1 <= limits.most:
                    own.append((workers, samples))
        choices.append(own)
    for combination in product(*choices):
        if sum(samples for _, samples in combination) != job.global_batch:
            continue
        if sum(samples % workers != 0 for workers, samples in combination if workers) > 1:
            continue
        groups: list[VmGroup] = []
        for kind, (workers, samples) in zip(kinds, combination, strict=True):
            groups += _groups(kind, workers, samples, offers)
        yield ClusterConfig(tuple(groups))


def _groups(kind, workers: int, samples: int, offers: Sequence[Offer]) -> list[VmGroup]:
    """One VM group per VM: the workers' batches, largest first, fill the VMs."""
    if not workers:
        return []
    least, extra = divmod(samples, workers)
    gpus = kind.gpus
    full, partial = divmod(workers, gpus)
    per_vm = [gpus * least] * full + ([partial * least] if partial else [])
    used = [gpus] * full + ([partial] if partial else [])
    room = list(used)
    while extra:  # one more sample to the emptiest full VM, the partial one last
        fullest = min(
            (i for i in range(len(room)) if room[i]), key=lambda i: (used[i] < gpus, -room[i], i)
        )
        room[fullest] -= 1
        per_vm[fullest] += 1
        extra -= 1
    supply = [
        offer
        for offer in sorted(
            (o for o in offers if o.instance_type == kind), key=lambda o: o.usd_per_hour
        )
        for _ in range(offer.quota)
    ]
    return [VmGroup(offer, 1, n, g) for offer, n, g in zip(supply, per_vm, used, strict=False)]


def best_value(
    job: Job, offers: Sequence[Offer], ranges: dict[str, BatchRange], simulator: Simulator
) -> tuple[float | None, int]:
    """Returns the smallest objective among the feasible configurations, and how many there are."""
    configs = list(all_configs(job, offers, ranges))
    if not configs:
        return None, 0
    table = ConfigTable.from_configs(configs)
    jobs = forecast_jobs(job, table, simulator.predict(job, table))
    quantile = jobs.time_quantile_s(job.limits.confidence)
    values = []
    for row in range(len(configs)):
        in_time = job.limits.deadline_s is None or quantile[row] <= job.limits.deadline_s
        cost_quantile = jobs.cost_usd(quantile)[row]
        in_budget = job.limits.budget_usd is None or cost_quantile <= job.limits.budget_usd
        if in_time and in_budget:
            value = jobs.time_mean_s if job.objective == "time" else jobs.cost_mean_usd
            values.append(float(value[row]))
    return (min(values) if values else None), len(configs)
