"""What a controller knows of its run."""

from __future__ import annotations

from dataclasses import dataclass, field

from srifty.cloud.backend import World
from srifty.control.blame import Blame
from srifty.control.fleet import Fleet
from srifty.control.learned import Learned
from srifty.control.pace import Pace, Watch
from srifty.control.pools import Pools
from srifty.control.run_order import Ending
from srifty.control.training_log import TrainingLog
from srifty.core.cluster import ClusterConfig


@dataclass
class Training:
    """A world that was started.

    Attributes:
        world: its workers.
        config: what it runs on.
        began_at_s: seconds since the command at which it was started.
        from_iteration: the newest checkpoint at its start.
        step: number of the ledger's step that ends it; None while it is to go on.
        saves: whether it was asked to save before its end.
        stop_s: real seconds at which it was asked to end.
        broke_s: real seconds at which a worker was gone while the others were to save; None: none.
        watch: of its pace.
        alarmed_s: seconds since the command of the last window upon whose alarm was decided.
        blamed_s: seconds since the command of the last window that was looked into for causes.
        suspect: what the last window was blamed on; None: nothing was looked into yet.
        warm_s: seconds since the command at which its first steps were over; None: they are not.
        has_ended: whether all its workers were seen to have ended.
        is_tried: whether the steps after those were judged.
    """

    world: World
    config: ClusterConfig
    began_at_s: float
    from_iteration: int
    step: int | None = None
    saves: bool = False
    stop_s: float = 0.0
    broke_s: float | None = None
    watch: Watch = field(default_factory=Watch)
    alarmed_s: float = float("-inf")
    blamed_s: float = float("-inf")
    suspect: Blame | None = None
    warm_s: float | None = None
    is_tried: bool = False
    has_ended: bool = False

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end."""
        return self.step is not None

    @property
    def vms(self) -> tuple[str, ...]:
        """The VMs it runs on."""
        return tuple(vm.vm for vm in self.world.vms)


@dataclass
class RunState:
    """What a controller knows of its run; all of it can be told again from the ledger.

    Attributes:
        log: how far training is.
        fleet: the VMs.
        pools: what is known of the pools.
        target: what was decided to rent; None: nothing.
        training: what trains now; None: nothing does.
        trains_on: whether the VMs that are there train while those of the target boot.
        meanwhile: how they would; None: they train already, or cannot.
        generation: number of the newest world.
        events: how many events of the back end are known.
        stalls: worlds in a row that ended without a newer checkpoint.
        has_begun: whether anything was decided before.
        must_decide: whether something happened that a decision is due upon.
        pace: measured pace of what trains; None while too little is known.
        outcome: how the run ends, and why; None: it goes on.
        closing: number of the ledger's step that ends the run; None: not begun.
        passed: pairs of instance types that were seen to exchange.
        apart: pairs that were seen not to, and are kept apart.
        blame: what the newest slow-down comes from; None: there was none, or it is over.
        swept: VMs that were seen to exchange with each other.
        bad_sweeps: how many sweeps in a row found VMs that do not.
        learned: how much longer things take than was forecast.
    """

    log: TrainingLog
    fleet: Fleet = field(default_factory=Fleet)
    pools: Pools = field(default_factory=Pools)
    target: ClusterConfig | None = None
    training: Training | None = None
    trains_on: bool = True
    meanwhile: ClusterConfig | None = None
    generation: int = 0
    events: int = 0
    stalls: int = 0
    has_begun: bool = False
    must_decide: bool = True
    pace: Pace | None = None
    outcome: tuple[Ending, str] | None = None
    closing: int | None = None
    passed: set[frozenset[str]] = field(default_factory=set[frozenset[str]])
    apart: set[frozenset[str]] = field(default_factory=set[frozenset[str]])
    swept: set[str] = field(default_factory=set[str])
    bad_sweeps: int = 0
    blame: Blame | None = None
    learned: Learned = field(default_factory=Learned)
