"""Before VMs train together and the whole plan is paid for: do they exchange, and how fast?

Collectives over different hosts have hung. So before a plan with several instance types trains, a
short timed sweep runs on one VM of each of two types; the rest of the plan is asked for only
afterwards. When all VMs are there, each two of them try. Who does not answer is named: two types
that do not exchange are kept apart by plans, a VM that nobody can exchange with is replaced. And
where exchanges take far longer than was forecast, it is planned anew with that.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srifty.cloud.backend import Backend, VmWorkers, WorkersStatus, World, WorldVm
from srifty.cloud.clock import Clock
from srifty.control.fleet import FleetVm, Phase
from srifty.control.hands import Hands
from srifty.control.learned import Learned
from srifty.control.ledger import Ledger
from srifty.control.planning import Planning
from srifty.control.run_order import Ending, RunOrder, RunRule
from srifty.control.run_state import RunState
from srifty.control.training_log import PairTimes
from srifty.core.cluster import ClusterConfig
from srifty.simulator import Simulator

Pair = frozenset[str]

# Sweeps in a row that may find VMs which do not exchange.
_MOST_BAD = 3
# How many times as long as forecast exchanges must take to be far off.
_FAR_OFF = 2.0


@dataclass
class _Sweep:
    """A sweep that runs: between two types, or (pair None) among all VMs of a plan."""

    pair: Pair | None
    members: tuple[FleetVm, ...]
    world: World
    began_s: float
    step: int
    heard: int

    @property
    def names(self) -> str:
        """What is tried, for people."""
        return " and ".join(sorted(self.pair or [vm.vm for vm in self.members]))


class Preflight:
    """Sees to the sweeps of one run.

    Args:
        state: of the run; says which pairs passed, and which must stay apart.
        order: what the sweep is; None there: none is made.
        backend: where the VMs are.
        ledger: of the run.
        clock: of the run.
        rule: how long a sweep may take.
        planning: what exchanges were forecast from.
        hands: replaces VMs, and keeps what was learned.
    """

    def __init__(
        self,
        state: RunState,
        order: RunOrder,
        backend: Backend,
        ledger: Ledger,
        clock: Clock,
        rule: RunRule,
        planning: Planning,
        hands: Hands,
    ) -> None:
        self._state = state
        self._order = order
        self._backend = backend
        self._ledger = ledger
        self._clock = clock
        self._rule = rule
        self._planning = planning
        self._hands = hands
        self._say = hands.say
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
        found = tuple(member for member in members if member is not None)
        if len(found) == len(members):
            self._start(pair, found)

    def lets_train(self, members: tuple[FleetVm, ...]) -> bool:
        """Returns whether VMs may train together; until then each two of them try an exchange."""
        if self._order.preflight is None or len(members) < 2:
            return True
        if self._sweep is not None:
            self._see(self._sweep)
            return False
        if {vm.vm for vm in members} <= self._state.swept:
            return True
        self._start(None, members)
        return False

    def _start(self, pair: Pair | None, members: tuple[FleetVm, ...]) -> None:
        self._state.generation += 1
        world = World(
            self._state.generation,
            tuple(WorldVm(vm.vm, 1) for vm in members),
            self._order.preflight or (),
            ",".join("1" for _ in members),
        )
        step = self._ledger.begin(
            "preflight",
            {
                "pair": None if pair is None else sorted(pair),
                "vms": [vm.vm for vm in members],
                "generation": world.generation,
            },
            self._clock.now_s(),
        )
        heard = len(self._state.log.pairs)
        sweep = _Sweep(pair, members, world, time.monotonic(), step, heard)
        self._say(f"tries an exchange between {sweep.names}")
        self._backend.start_workers(world)
        self._sweep = sweep

    def _see(self, sweep: _Sweep) -> None:
        workers = [w for w in self._backend.workers() if w.generation == sweep.world.generation]
        is_late = time.monotonic() - sweep.began_s > self._rule.preflight_s
        is_over = all(w.status is WorkersStatus.ENDED for w in workers)
        # Who has ended by now has said all: read after asking who has.
        self._state.log.read(self._backend.progress(self._state.log.after))
        said = self._state.log.pairs[sweep.heard :]
        if len(workers) < len(sweep.world.vms):
            self._end(sweep, has_passed=None)  # a VM was lost: nothing is known
        elif is_over and all(w.exit_code == 0 for w in workers):
            self._say(f"{sweep.names} exchange as they should")
            self._end(sweep, has_passed=True)
            self._compare(sweep, said)
        elif is_late or is_over or self._all_know(sweep, workers, said):
            self._backend.stop_workers(save=False)
            self._blame(sweep, workers, said, is_late=is_late)

    def _all_know(
        self, sweep: _Sweep, workers: Sequence[VmWorkers], said: Sequence[PairTimes]
    ) -> bool:
        """Whether all but those that hang have ended, so that nothing more will be known."""
        hang = {sweep.members[rank].vm for rank in _silent(said)}
        ended = {w.vm for w in workers if w.status is WorkersStatus.ENDED}
        return bool(hang) and bool(ended) and {w.vm for w in workers} <= hang | ended

    def _blame(
        self,
        sweep: _Sweep,
        workers: Sequence[VmWorkers],
        said: Sequence[PairTimes],
        *,
        is_late: bool,
    ) -> None:
        """Says who does not exchange with whom, and has plans or VMs follow."""
        bad = {(pair.first, pair.second) for pair in said if pair.took is None}
        if not bad and not is_late and sweep.pair is None:
            # Nobody is known not to answer: the sweep itself could not be made.
            self._say(f"the exchange could not be tried (see {workers[0].log}); training begins")
            self._end(sweep, has_passed=True)
            return
        what = "hang" if is_late or bad else f"fail (see {workers[0].log})"
        if sweep.pair is not None:
            self._say(
                f"exchanges between {sweep.names} {what}: plans keep them apart from now on. Equal "
                "NCCL versions, and NCCL_ALGO=Ring, have helped where hosts differ"
            )
            self._end(sweep, has_passed=False)
            return
        alone = [sweep.members[rank] for rank in _silent(said)] or list(sweep.members)
        pairs = "; ".join(
            f"{sweep.members[first].vm} and {sweep.members[second].vm}"
            for first, second in sorted(bad)
        )
        kinds = frozenset(vm.pool.instance_type for vm in sweep.members)
        self._say(f"exchanges hang between {pairs or sweep.names}")
        self._state.bad_sweeps += 1
        if len(sweep.members) == 2 and len(kinds) == 2:
            self._end(sweep, has_passed=False, apart=kinds)
        else:
            self._end(sweep, has_passed=None)
            self._say(f"{', '.join(vm.vm for vm in alone)} answered nobody: to be replaced")
            self._hands.release([vm.vm for vm in alone])
            self._decide_anew()
        if self._state.bad_sweeps >= _MOST_BAD:
            words = f"VMs that exchange with each other were not found in {_MOST_BAD} tries."
            self._state.outcome = (Ending.UNFINISHED, words)

    def _compare(self, sweep: _Sweep, said: Sequence[PairTimes]) -> None:
        """Plans anew where exchanges of VMs of a type take far longer than was forecast."""
        predictor = self._planning.predictor
        times = [pair for pair in said if pair.took]
        if not times or not isinstance(predictor, Simulator):
            return
        size = max(int(size) for size in times[0].took or {})
        ratios: list[float] = []
        for pair in times:
            first, second = (sweep.members[rank].pool for rank in (pair.first, pair.second))
            if first.instance_type == second.instance_type and pair.took is not None:
                kind = next(
                    offer.instance_type
                    for offer in self._planning.offers
                    if offer.instance_type.name == first.instance_type
                )
                two, bytes_ = np.array([2]), np.array([float(size)])
                forecast_s = float(predictor.allreduce.time_s(kind, two, two, bytes_)[0, 0])
                ratios.append(pair.took[str(size)] * self._clock.factor / forecast_s)
        if not ratios or statistics.median(ratios) < _FAR_OFF:
            return
        factor = statistics.median(ratios)
        self._say(f"exchanges take {factor:.3g} times as long as was forecast: plans anew")
        self._hands.learn(Learned(network=factor, compute=self._state.learned.compute))
        self._decide_anew()

    def _decide_anew(self) -> None:
        self._state.must_decide = True

    def _end(self, sweep: _Sweep, *, has_passed: bool | None, apart: Pair | None = None) -> None:
        self._sweep = None
        pair = sweep.pair or apart
        self._ledger.done(
            sweep.step,
            self._clock.now_s(),
            {"has_passed": has_passed, "pair": None if pair is None else sorted(pair)},
        )
        if has_passed and sweep.pair is None:
            self._state.bad_sweeps = 0
            self._state.swept |= {vm.vm for vm in sweep.members}
        elif has_passed and pair is not None:
            self._state.passed.add(pair)
        elif has_passed is False and pair is not None:
            self._state.apart.add(pair)
            self._state.target = None
            self._decide_anew()


def _silent(said: Sequence[PairTimes]) -> list[int]:
    """Returns the ranks that nobody heard from; of those, the ones that all failures share."""
    answered = {rank for pair in said if pair.took for rank in (pair.first, pair.second)}
    failed = [{pair.first, pair.second} for pair in said if pair.took is None]
    silent = {rank for pair in failed for rank in pair} - answered
    shared = {rank for rank in silent if all(rank in pair for pair in failed)}
    return sorted(shared or silent)


def _first_of(kind: str, ready: list[FleetVm]) -> FleetVm | None:
    return next((vm for vm in ready if vm.pool.instance_type == kind), None)
