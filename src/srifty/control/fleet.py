"""The VMs of a run as its controller knows them: asked for, running, noticed, gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from srifty.core.cluster import ClusterConfig
from srifty.core.events import Pool, VmEvent, VmEventKind


class Phase(StrEnum):
    """What a VM is to the run.

    `ASKED`: it boots. `READY`: it can train. `NOTICED`: it trains, and is going to be taken back.
    `SILENT`: nothing is heard of it, and it may still be billed. `GONE`: it is no more.
    """

    ASKED = "asked"
    READY = "ready"
    NOTICED = "noticed"
    SILENT = "silent"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class FleetVm:
    """One VM.

    Attributes:
        vm: its name.
        pool: where it comes from.
        gpus: workers that it can have.
        asked_s: seconds since the command at which it was asked for.
        phase: what it is now.
        is_released: whether the run has let it go.
        is_unwanted: whether it trains on only until another VM stands in for it.
    """

    vm: str
    pool: Pool
    gpus: int
    asked_s: float
    phase: Phase = Phase.ASKED
    is_released: bool = False
    is_unwanted: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether it boots or runs, and is to stay."""
        is_to_stay = not self.is_released and not self.is_unwanted
        return is_to_stay and self.phase in (Phase.ASKED, Phase.READY)

    @property
    def can_train(self) -> bool:
        """Whether workers run, or can be started, on it."""
        return not self.is_released and self.phase in (Phase.READY, Phase.NOTICED)


_PHASES = {
    VmEventKind.LAUNCHED: Phase.READY,
    VmEventKind.RECOVERED: Phase.READY,
    VmEventKind.NOTICE: Phase.NOTICED,
    VmEventKind.LOST: Phase.SILENT,
    VmEventKind.FAILED: Phase.GONE,
    VmEventKind.PREEMPTED: Phase.GONE,
    VmEventKind.TERMINATED: Phase.GONE,
}


@dataclass(frozen=True)
class Fleet:
    """All VMs that were ever asked for.

    Attributes:
        vms: by name, in the order of the requests.
    """

    vms: Mapping[str, FleetVm] = field(default_factory=dict[str, FleetVm])

    def asking(self, vms: Sequence[FleetVm]) -> Fleet:
        """Returns the fleet with more VMs asked for; those it has stay as they are."""
        new = {vm.vm: vm for vm in vms if vm.vm not in self.vms}
        return Fleet({**self.vms, **new})

    def after(self, event: VmEvent) -> Fleet:
        """Returns the fleet after an event; one that is gone stays gone."""
        vm = self.vms.get(event.vm)
        if vm is None or vm.phase is Phase.GONE:
            return self
        return Fleet({**self.vms, event.vm: replace(vm, phase=_PHASES[event.kind])})

    def without(self, names: Sequence[str]) -> Fleet:
        """Returns the fleet with VMs known to be gone, whatever was last heard of them."""
        gone = {name: replace(self.vms[name], phase=Phase.GONE) for name in names}
        return Fleet({**self.vms, **gone})

    def releasing(self, names: Sequence[str]) -> Fleet:
        """Returns the fleet with VMs let go."""
        released = {name: replace(self.vms[name], is_released=True) for name in names}
        return Fleet({**self.vms, **released})

    def replacing(self, names: Sequence[str]) -> Fleet:
        """Returns the fleet with VMs that are not to be kept once others stand in for them."""
        unwanted = {name: replace(self.vms[name], is_unwanted=True) for name in names}
        return Fleet({**self.vms, **unwanted})

    def unwanted(self) -> list[FleetVm]:
        """Returns the VMs that train on only until others stand in for them."""
        return [vm for vm in self.vms.values() if vm.is_unwanted and vm.can_train]

    def kept(self) -> list[FleetVm]:
        """Returns the VMs that boot or run and are to stay."""
        return [vm for vm in self.vms.values() if vm.is_kept]

    def by_pool(self, phase: Phase) -> dict[Pool, int]:
        """Returns how many VMs that are to stay are in a phase, by pool."""
        counts: dict[Pool, int] = {}
        for vm in self.kept():
            if vm.phase is phase:
                counts[vm.pool] = counts.get(vm.pool, 0) + 1
        return counts

    def held(self) -> dict[Pool, int]:
        """Returns how many VMs boot or run and are to stay, by pool."""
        counts: dict[Pool, int] = {}
        for vm in self.kept():
            counts[vm.pool] = counts.get(vm.pool, 0) + 1
        return counts

    def missing(self, config: ClusterConfig) -> dict[Pool, int]:
        """Returns how many VMs a configuration needs beyond those that boot or run, by pool."""
        held = self.held()
        wanted = vms_by_pool(config)
        return {
            pool: count - held.get(pool, 0)
            for pool, count in wanted.items()
            if count > held.get(pool, 0)
        }

    def members(self, config: ClusterConfig) -> tuple[FleetVm, ...] | None:
        """Returns the VMs that make up a configuration in the order of its groups; None: not yet.

        Those that were asked for first come first, so that a world that goes on keeps its VMs.
        """
        ready = [vm for vm in self.kept() if vm.phase is Phase.READY]
        chosen: list[FleetVm] = []
        for group in config.groups:
            pool = Pool.of(group.offer)
            free = [vm for vm in ready if vm.pool == pool and vm not in chosen]
            if len(free) < group.count:
                return None
            chosen += free[: group.count]
        return tuple(chosen)

    def surplus(self, config: ClusterConfig | None, training: Sequence[str]) -> list[str]:
        """Returns the VMs that a configuration does not need, those that do not train first.

        Args:
            config: what is to be rented; None: nothing.
            training: the VMs that train now.
        """
        wanted = {} if config is None else vms_by_pool(config)
        surplus: list[str] = []
        for pool in self.held():
            own = [vm for vm in self.kept() if vm.pool == pool]
            own.sort(key=lambda vm: (vm.vm not in training, vm.phase is not Phase.READY, vm.vm))
            surplus += [vm.vm for vm in own[wanted.get(pool, 0) :]]
        return surplus

    def still_there(self) -> list[str]:
        """Returns the VMs that are not known to be gone."""
        return [vm.vm for vm in self.vms.values() if vm.phase is not Phase.GONE]


def vms_by_pool(config: ClusterConfig) -> dict[Pool, int]:
    """Returns how many VMs a configuration takes from each pool."""
    counts: dict[Pool, int] = {}
    for group in config.groups:
        pool = Pool.of(group.offer)
        counts[pool] = counts.get(pool, 0) + group.count
    return counts
