"""VM groups and cluster configurations: who processes how many samples of one iteration."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core._checks import require, require_count
from srifty.core.offers import Offer


@dataclass(frozen=True, slots=True)
class VmGroup:
    """VMs of one offer that all do the same.

    The samples of a VM are dealt to its workers as evenly as possible, so that two workers of a VM
    differ by at most one sample (37 on 4 GPUs: 10, 9, 9, 9).

    Attributes:
        offer: what is rented.
        count: number of VMs.
        samples_per_vm: samples that one VM processes in one iteration.
        gpus_used: workers on each VM, at most the GPUs it has.
        accumulation: forward/backward passes per iteration.
    """

    offer: Offer
    count: int
    samples_per_vm: int
    gpus_used: int
    accumulation: int = 1

    def __post_init__(self) -> None:
        label = self.offer.label
        require_count(f"{label}: count", self.count)
        require_count(f"{label}: samples per VM", self.samples_per_vm)
        require_count(f"{label}: GPUs used", self.gpus_used)
        require_count(f"{label}: accumulation", self.accumulation)
        gpus = self.offer.instance_type.gpus
        require(
            self.gpus_used <= gpus,
            f"{label} has {gpus} GPUs, so {self.gpus_used} of them cannot be used",
        )
        require(
            self.samples_per_vm >= self.gpus_used,
            f"{label}: {self.samples_per_vm} samples cannot be dealt to {self.gpus_used} GPUs; "
            f"use at most {self.samples_per_vm} GPUs",
        )
        require(
            self.accumulation <= self.samples_per_vm // self.gpus_used,
            f"{label}: a worker with {self.samples_per_vm // self.gpus_used} samples cannot make "
            f"{self.accumulation} passes",
        )

    @property
    def local_batches(self) -> tuple[int, ...]:
        """Samples of each worker of one VM, largest first."""
        least, extra = divmod(self.samples_per_vm, self.gpus_used)
        return (least + 1,) * extra + (least,) * (self.gpus_used - extra)

    @property
    def micro_batch(self) -> int:
        """The largest number of samples in one forward/backward pass."""
        return -(-self.local_batches[0] // self.accumulation)

    @property
    def workers(self) -> int:
        """Workers (GPUs) of the whole group."""
        return self.count * self.gpus_used

    @property
    def samples(self) -> int:
        """Samples that the whole group processes in one iteration."""
        return self.count * self.samples_per_vm


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster configuration: the VM groups that train one job together.

    Attributes:
        groups: at least one.
    """

    groups: tuple[VmGroup, ...]

    def __post_init__(self) -> None:
        require(bool(self.groups), "a cluster configuration needs at least one VM group")

    @property
    def samples(self) -> int:
        """Samples of one iteration: the global batch that this configuration serves."""
        return sum(group.samples for group in self.groups)

    @property
    def world_size(self) -> int:
        """Number of workers (GPUs, ranks)."""
        return sum(group.workers for group in self.groups)

    @property
    def vms(self) -> int:
        """Number of VMs."""
        return sum(group.count for group in self.groups)

    @property
    def usd_per_hour(self) -> float:
        """Price of all VMs for an hour."""
        return sum(group.count * group.offer.usd_per_hour for group in self.groups)
