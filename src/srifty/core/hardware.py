"""GPU models and instance types: what a VM is made of."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core._checks import MOST_BYTES, require, require_count, require_positive
from srifty.units import GIB

_FORBIDDEN_IN_NAMES = frozenset("@():, \t\n")


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU as its data sheet describes it.

    Attributes:
        name: the short name that profiles use, such as `T4`.
        architecture: the vendor's name of the generation, such as `Turing`.
        memory_bytes: memory of one GPU.
        memory_bytes_per_s: peak memory bandwidth.
        peak_flops: peak operations per second by precision, such as `{"fp32": 8.1e12}`.
        source: where the figures come from.
    """

    name: str
    architecture: str
    memory_bytes: int
    memory_bytes_per_s: float
    peak_flops: dict[str, float]
    source: str

    def __post_init__(self) -> None:
        require(bool(self.name), "a GPU model needs a name")
        require_count("memory_bytes", self.memory_bytes, most=MOST_BYTES)
        require_positive("memory_bytes_per_s", self.memory_bytes_per_s)
        require("fp32" in self.peak_flops, "peak_flops needs an entry for fp32")
        for precision, flops in self.peak_flops.items():
            require_positive(f"peak_flops[{precision!r}]", flops)


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A VM shape that a cloud rents.

    Attributes:
        name: the cloud's name, `g4dn.12xlarge`. Starts with a letter; no blanks, `@`, `:`, `(`.
        cloud: `aws`, `gcp`, ...; `own` for machines that the user owns.
        gpu: name of the GPU model, as profiles use it.
        gpus: GPUs in one VM.
        gpu_memory_bytes: memory of each GPU.
        vcpus: virtual CPUs of the VM.
        cpu_vendor: `intel`, `amd`, `aws`; None where unknown.
        rated_gbit_per_s: the network speed that the provider rates as sustained.
        nvlink: whether the GPUs of a VM are joined by NVLink; None where unknown.
        burst_gbit_per_s: the speed that the provider rates as reachable for a while ("up to");
            None where it promises no more than the sustained one.
        efa: whether it offers AWS's fabric (Elastic Fabric Adapter); None where unknown.
        placement_groups: whether it can be placed close together; None where unknown.
        quota_pool: the pool of vCPUs that its quota is counted in, `G` or `P`; None where unknown.
        source: where the figures come from.
    """

    name: str
    cloud: str
    gpu: str
    gpus: int
    gpu_memory_bytes: int
    vcpus: int
    rated_gbit_per_s: float
    cpu_vendor: str | None = None
    nvlink: bool | None = None
    source: str = ""
    burst_gbit_per_s: float | None = None
    efa: bool | None = None
    placement_groups: bool | None = None
    quota_pool: str | None = None

    def __post_init__(self) -> None:
        require(
            self.name[:1].isalpha() and not _FORBIDDEN_IN_NAMES & set(self.name),
            f"an instance type's name starts with a letter and has no blank, '@', ':', ',' or "
            f"bracket, unlike {self.name!r}",
        )
        require_count(f"{self.name}: gpus", self.gpus)
        require_count(f"{self.name}: vcpus", self.vcpus)
        require_count(f"{self.name}: gpu_memory_bytes", self.gpu_memory_bytes, most=MOST_BYTES)
        require_positive(f"{self.name}: rated_gbit_per_s", self.rated_gbit_per_s)
        if self.burst_gbit_per_s is not None:
            require_positive(f"{self.name}: burst_gbit_per_s", self.burst_gbit_per_s)

    @property
    def family(self) -> str:
        """See `family_of`."""
        return family_of(self.name)

    @property
    def gpu_memory_gib(self) -> float:
        """Memory of each GPU in GiB."""
        return self.gpu_memory_bytes / GIB


def family_of(instance_type: str) -> str:
    """Returns the family of a type's name: `g4dn` of `g4dn.xlarge`, `n1-standard` of the like.

    It is what stands before the first dot, else the first two parts between hyphens.
    """
    head, dot, _ = instance_type.partition(".")
    return head if dot else "-".join(instance_type.split("-")[:2])
