"""The simulator's interface as Luo et al. 2022 print it: `SIM(M, counts, batches, iters)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.simulator.iteration import Noise, Simulator
from srifty.simulator.tables import ConfigTable


def SIM(  # noqa: N802 - the paper's name
    M: tuple[Simulator, Job],  # noqa: N803 - the paper's name
    counts: Mapping[Offer, int],
    batches: Mapping[Offer, int],
    iters: int,
) -> float:
    """Returns the mean iteration time, seconds, with stragglers drawn as in the paper.

    Args:
        M: the simulator and the job whose model is trained.
        counts: VMs of each offer; 0 leaves it out.
        batches: samples of one VM of each offer.
        iters: iterations to draw.
    """
    simulator, job = M
    groups = tuple(
        VmGroup(
            offer, count, batches[offer], gpus_used=min(offer.instance_type.gpus, batches[offer])
        )
        for offer, count in counts.items()
        if count > 0
    )
    sampled = replace(simulator, noise=Noise.SAMPLED, draws=iters)
    table = sampled.predict(job, ConfigTable.from_configs([ClusterConfig(groups)]))
    return float(table.mean_s[0])
