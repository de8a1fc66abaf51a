"""The seven job shapes of Luo et al. 2022, section 5.2, as jobs for our planner.

Global batches: 1K = 1,024; case 6 is 2,112, case 7 is 6,144. No launch time is counted, and no VM
is lost. The paper's spot prices are not public; the built-in ones are used. Workloads are the
built-in samples, most of them estimated: what is measured here is the planner, not the forecast.
"""

from __future__ import annotations

from dataclasses import dataclass

from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, builtin_source
from srifty.catalog import builtin_instance_types, resolve
from srifty.compute.latency import LatencyModel
from srifty.core.interruptions import NEVER
from srifty.core.job import Job, Limits, Objective, Overheads
from srifty.core.offers import Market, Offer
from srifty.core.supply import InterruptionEntry, QuotaEntry, SupplyRequest
from srifty.files import builtin_profiles
from srifty.planner import BatchRange
from srifty.simulator import Simulator


@dataclass(frozen=True)
class PaperCase:
    """One case of the paper.

    Attributes:
        name: the paper's number and workload.
        workload: the built-in sample.
        global_batch: samples.
        quota: VMs by instance type.
        objective: what is minimised.
        limits: deadline and budget.
        iterations: optimizer steps.
        paper_s: seconds that the paper's planner took.
    """

    name: str
    workload: str
    global_batch: int
    quota: dict[str, int]
    objective: Objective
    limits: Limits
    iterations: int
    paper_s: float


_MEAN = Limits(confidence=0.5)
_BOTH = {"g4dn.8xlarge": 32, "g3.8xlarge": 32}
_MIXED = {"p3.8xlarge": 4, "g3.8xlarge": 8, "g4dn.8xlarge": 8}
_TIME, _COST = Objective.TIME, Objective.COST

PAPER_CASES = (
    PaperCase("1 ResNet-50", "resnet50", 128, {"g4dn.8xlarge": 64}, _TIME, _MEAN, 1000, 1.1),
    PaperCase("2 VGG-16", "vgg16", 512, {"g3.8xlarge": 64}, _TIME, _MEAN, 1000, 0.8),
    PaperCase("3 AlexNet", "alexnet", 1024, {"g3.8xlarge": 64}, _TIME, _MEAN, 1000, 0.9),
    PaperCase("4 DLRM", "dlrm", 1024, _BOTH, _COST, _MEAN, 1000, 4.3),
    PaperCase("5 XLM", "xlm-1024", 512, _BOTH, _COST, _MEAN, 1000, 2.4),
    PaperCase("5 BERT", "bert-base", 1024, _BOTH, _COST, _MEAN, 1000, 6.5),
    PaperCase(
        "6 Inception", "inception-v3", 2112, _MIXED, _TIME, Limits(300.0, 1.4, 0.5), 500, 2.5
    ),
    PaperCase(
        "7 ShuffleNet", "shufflenet-v2", 6144, _MIXED, _TIME, Limits(360.0, 2.5, 0.5), 1000, 0.9
    ),
)


@dataclass(frozen=True)
class Prepared:
    """A case with all that the planner takes."""

    job: Job
    offers: tuple[Offer, ...]
    simulator: Simulator
    batch_ranges: dict[str, BatchRange]


def prepare(case: PaperCase) -> Prepared:
    """Returns the job, offers and models of a case."""
    request = SupplyRequest(
        cloud="aws",
        region="us-east-1",
        markets=(Market.SPOT,),
        quota=tuple(QuotaEntry(name, None, vms) for name, vms in case.quota.items()),
        # The paper's times and bills count no lost VM.
        interruptions=tuple(InterruptionEntry(name, NEVER) for name in case.quota),
    )
    offers = resolve(request).offers
    gpus = {offer.instance_type.gpu for offer in offers}
    profiles = tuple(p for p in builtin_profiles(case.workload) if p.gpu in gpus)
    models = {profile.gpu: LatencyModel.fit(profile) for profile in profiles}
    job = Job(
        name=case.name,
        profiles=profiles,
        global_batch=case.global_batch,
        iterations=case.iterations,
        objective=case.objective,
        limits=case.limits,
        overheads=Overheads(launch_s=0.0, restore_s=0.0),
    )
    ranges = {
        gpu: BatchRange(model.min_batch, model.knee_batch, model.max_batch)
        for gpu, model in models.items()
    }
    return Prepared(
        job,
        offers,
        Simulator(models, LearnedModel(blend_of(builtin_source(), builtin_instance_types()))),
        ranges,
    )
