"""A plan as it was written down: what is needed to start it, and nothing that only chose it."""

from __future__ import annotations

from dataclasses import dataclass, field

from srifty.core._checks import require, require_count
from srifty.core.offers import Location, Market
from srifty.core.settings import RunSettings


@dataclass(frozen=True, slots=True)
class WrittenGroup:
    """VMs of one kind in a plan.

    Attributes:
        instance_type: the cloud's name of the type.
        market: how it is paid for.
        location: where it runs.
        count: number of VMs.
        local_batch: samples of each worker of one VM in one iteration.
        accumulation: forward/backward passes per iteration.
        gpus: GPUs that one VM has; some may have no worker.
        vcpus: virtual CPUs of one VM; None where the plan does not say.
        cloud: `aws`, `gcp`, ...; `own` for machines of the user's; None: the plan does not say.
        gpu: the GPU model; None: the plan does not say.
    """

    instance_type: str
    market: Market
    location: Location
    count: int
    local_batch: tuple[int, ...]
    accumulation: int = 1
    gpus: int = 1
    vcpus: int | None = None
    cloud: str | None = None
    gpu: str | None = None

    def __post_init__(self) -> None:
        label = self.instance_type
        require_count(f"{label}: count", self.count)
        require(bool(self.local_batch), f"{label}: local_batch must list a worker's samples")
        require_count(f"{label}: accumulation", self.accumulation)
        for samples in self.local_batch:
            require_count(f"{label}: samples of a worker", samples)
            require(
                self.accumulation <= samples,
                f"{label}: a worker with {samples} samples cannot make {self.accumulation} passes",
            )
        require(
            self.workers <= self.gpus,
            f"{label} has {self.gpus} GPUs, so {self.workers} of them cannot be used",
        )

    @property
    def workers(self) -> int:
        """Workers on one VM, one for each GPU that is used."""
        return len(self.local_batch)

    @property
    def offer(self) -> tuple[str, Market, Location]:
        """What is rented: groups that differ only in their samples have the same."""
        return (self.instance_type, self.market, self.location)


@dataclass(frozen=True, slots=True)
class WrittenPlan:
    """A plan that a file holds.

    Attributes:
        job: the job's name.
        config: the configuration in the short notation, for people.
        groups: at least one; ranks follow in their order, VM by VM.
        settings: how the VMs are set up.
    """

    job: str
    config: str
    groups: tuple[WrittenGroup, ...]
    settings: RunSettings = field(default_factory=RunSettings)

    def __post_init__(self) -> None:
        require(bool(self.groups), "a plan needs at least one VM group")
        require_count("workers of a plan", self.world_size)

    @property
    def vms(self) -> int:
        """Number of VMs."""
        return sum(group.count for group in self.groups)

    @property
    def world_size(self) -> int:
        """Number of workers."""
        return sum(group.count * group.workers for group in self.groups)

    @property
    def shares(self) -> str:
        """Samples of each worker by rank, passes behind a slash: `12/3,2,1`."""
        return ",".join(
            f"{samples}/{group.accumulation}" if group.accumulation > 1 else str(samples)
            for group in self.groups
            for _ in range(group.count)
            for samples in group.local_batch
        )

    def first_vm(self, place: int) -> int:
        """Returns the number, from 0, of the first VM of the group at a place."""
        return sum(group.count for group in self.groups[:place])
