"""Before mixed VMs are paid for: do one VM of each of two types exchange at all?

Collectives over different hosts have hung. So before a plan with several instance types trains, a
short timed sweep runs on one VM of each of two types; the rest of the plan is asked for only
afterwards. What does not end in time, or fails, is blamed on the pair, and plans keep it apart.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from srifty.cloud.backend import Backend, WorkersStatus, World, WorldVm
from srifty.cloud.clock import Clock
from srifty.control.fleet import FleetVm, Phase
from srifty.control.ledger import Ledger
from srifty.control.run_order import RunOrder, RunRule
from srifty.control.run_state import RunState
from srifty.core.cluster import ClusterConfig

Pair = frozenset[str]


@dataclass
class _Sweep:
    """A sweep that runs."""

    pair: Pair
    world: World
    began_s: float
    step: int


class Preflight:
    """Sees to the sweeps of one run.

    Args:
        state: of the run; says which pairs passed, and which must stay apart.
        order: what the sweep is; None there: none is made.
        backend: where the VMs are.
        ledger: of the run.
        clock: of the run.
        rule: how long a sweep may take.
        say: takes a line for people.
    """

    def __init__(
        self,
        state: RunState,
        order: RunOrder,
        backend: Backend,
        ledger: Ledger,
        clock: Clock,
        rule: RunRule,
        say: Callable[[str], None],
    ) -> None:
        self._state = state
        self._order = order
        self._backend = backend
        self._ledger = ledger
        self._clock = clock
        self._rule = rule
        self._say = say
        self._sweep: _Sweep | None = None

    def due(self, config: ClusterConfig) -> Pair | None:
        """Returns a pair of a configuration's types of which nobody knows whether it works."""
        if self._order.preflight is None:
            return None
        kinds = sorted({group.offer.instance_type.name for group in config.groups})
        pairs = (frozenset(pair) for pair in itertools.combinations(kinds, 2))
        return next((pair for pair in pairs if pair not in self._state.passed), None)

    def look(self, pair: Pair) -> None:
        """Starts the sweep of a pair, or sees how it is getting on."""
        if self._sweep is not None:
            self._see(self._sweep)
            return
        ready = [vm for vm in self._state.fleet.kept() if vm.phase is Phase.READY]
        members = [_first_of(kind, ready) for kind in sorted(pair)]
        if all(member is not None for member in members):
            self._start(pair, [member.vm for member in members if member is not None])

    def _start(self, pair: Pair, vms: list[str]) -> None:
        self._state.generation += 1
        world = World(
            self._state.generation,
            tuple(WorldVm(vm, 1) for vm in vms),
            self._order.preflight or (),
            ",".join("1" for _ in vms),
        )
        step = self._ledger.begin(
            "preflight",
            {"pair": sorted(pair), "generation": world.generation},
            self._clock.now_s(),
        )
        self._say(f"tries an exchange between {' and '.join(sorted(pair))}")
        self._backend.start_workers(world)
        self._sweep = _Sweep(pair, world, time.monotonic(), step)

    def _see(self, sweep: _Sweep) -> None:
        workers = [w for w in self._backend.workers() if w.generation == sweep.world.generation]
        names = " and ".join(sorted(sweep.pair))
        is_late = time.monotonic() - sweep.began_s > self._rule.preflight_s
        if len(workers) < len(sweep.world.vms):
            self._end(sweep, has_passed=None)  # a VM was lost: nothing is known
        elif all(w.status is WorkersStatus.ENDED and w.exit_code == 0 for w in workers):
            self._say(f"{names} exchange as they should")
            self._end(sweep, has_passed=True)
        elif is_late or any(w.exit_code for w in workers):
            self._backend.stop_workers(save=False)
            what = "hang" if is_late else f"fail (see {workers[0].log})"
            self._say(
                f"exchanges between {names} {what}: plans keep them apart from now on. Equal NCCL "
                "versions, and NCCL_ALGO=Ring, have helped where hosts differ"
            )
            self._end(sweep, has_passed=False)

    def _end(self, sweep: _Sweep, *, has_passed: bool | None) -> None:
        self._sweep = None
        self._ledger.done(sweep.step, self._clock.now_s(), {"has_passed": has_passed})
        if has_passed:
            self._state.passed.add(sweep.pair)
        elif has_passed is False:
            self._state.apart.add(sweep.pair)
            self._state.target = None
            self._state.must_decide = True


def _first_of(kind: str, ready: list[FleetVm]) -> FleetVm | None:
    return next((vm for vm in ready if vm.pool.instance_type == kind), None)
