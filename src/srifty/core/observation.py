"""Observed iteration times: what a job really took on a known configuration."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core._checks import require, require_count, require_positive

_MOST_GPUS_PER_VM = 64


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured mean iteration time; every worker has the same local batch.

    Attributes:
        workload: the workload's name.
        gpu: name of the GPU model.
        instance_type: the VM shape it ran on.
        gpus_used: workers on each VM, one entry per VM.
        local_batch: samples per worker and iteration.
        step_s: mean seconds of an iteration.
        accumulation: passes in which a worker computes its samples; the last one exchanges.
    """

    workload: str
    gpu: str
    instance_type: str
    gpus_used: tuple[int, ...]
    local_batch: int
    step_s: float
    accumulation: int = 1

    def __post_init__(self) -> None:
        for name in ("workload", "gpu", "instance_type"):
            require(bool(getattr(self, name)), f"{name} is empty")
        require(bool(self.gpus_used), "placement needs at least one VM")
        for used in self.gpus_used:
            require_count("GPUs used of a VM", used, most=_MOST_GPUS_PER_VM)
        require_count("local_batch", self.local_batch)
        require_positive("step_s", self.step_s)
        require_count("accumulation", self.accumulation)
        require(
            self.accumulation <= self.local_batch,
            f"accumulation {self.accumulation} is too many for {self.local_batch} samples",
        )

    @property
    def micro_batch(self) -> float:
        """Samples of one pass."""
        return self.local_batch / self.accumulation

    @property
    def vms(self) -> int:
        """Number of VMs."""
        return len(self.gpus_used)

    @property
    def world_size(self) -> int:
        """Number of workers."""
        return sum(self.gpus_used)


def spread_evenly(workers: int, vms: int) -> tuple[int, ...]:
    """Returns the workers of each VM, as even as possible, fuller VMs first."""
    least, extra = divmod(workers, vms)
    return (least + 1,) * extra + (least,) * (vms - extra)
