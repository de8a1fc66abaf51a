"""A simulated cloud with one spot pool and on-demand VMs, on which policies run a job."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.spot_traces import Trace

_S_PER_HOUR = 3600.0
_CLOSE_S = 1e-6
# A request may fail at once, and so may what is asked for instead.
_LOOKS_AT_ONCE = 5

Target = tuple[int, int]
"""Spot and on-demand VMs."""


@dataclass(frozen=True)
class Terms:
    """One job on one trace.

    Attributes:
        trace: what the spot pool can hold.
        start_s: when, in the trace, the command is given.
        deadline_s: seconds from the command.
        work_s: seconds of training on all VMs; an iteration is a second of it.
        launch_s: from the request to running; not billed.
        setup_s: from running to training; billed.
        restore_s: for which nothing trains after the set of VMs changed.
        checkpoint_s: seconds of work on all VMs between two checkpoints.
        spot_usd_per_hour: price of a spot VM.
        on_demand_usd_per_hour: price of an on-demand VM.
        minimum_s: least billed time of a VM that ran.
        look_s: how often a policy looks.
    """

    trace: Trace
    start_s: float
    deadline_s: float
    work_s: float
    launch_s: float = 150.0
    setup_s: float = 60.0
    restore_s: float = 30.0
    checkpoint_s: float = 600.0
    spot_usd_per_hour: float = 0.3
    on_demand_usd_per_hour: float = 1.0
    minimum_s: float = 60.0
    look_s: float = 60.0

    @property
    def vms(self) -> int:
        """VMs of the whole cluster."""
        return self.trace.vms


@dataclass
class Vm:
    """A VM: name, market, and when it runs, is billed and trains."""

    name: str
    is_spot: bool
    billed_from_s: float
    ready_s: float


@dataclass(frozen=True)
class Happening:
    """What a policy is told: `launched`, `failed`, `preempted` or `released`, of which VM."""

    at_s: float
    what: str
    vm: str
    is_spot: bool


@dataclass
class World:
    """The cloud and the job; policies read it and order VMs.

    Attributes:
        terms: the job and its trace.
        now_s: seconds since the command.
        done_s: seconds of work done.
        durable_s: seconds of them in the newest checkpoint.
        spent_usd: dollars billed so far for VMs that are gone.
        vms: VMs that boot or run.
        training: names of those that train.
        target: what was ordered last.
        news: what happened since the policy was last asked.
    """

    terms: Terms
    now_s: float = 0.0
    done_s: float = 0.0
    durable_s: float = 0.0
    spent_usd: float = 0.0
    vms: list[Vm] = field(default_factory=list)
    training: tuple[str, ...] = ()
    target: Target = (0, 0)
    news: list[Happening] = field(default_factory=list)
    interruptions: int = 0
    _stalled_until_s: float = 0.0
    _serial: int = 0

    def spot_capacity(self) -> int:
        """Returns spot VMs that can be held now."""
        return self.terms.trace.at(self.terms.start_s + self.now_s)

    def count(self, *, is_spot: bool, ready: bool | None = None) -> int:
        """Returns VMs of a market; only those that are ready (or not) where asked."""
        return sum(
            vm.is_spot == is_spot and ready in (None, vm.ready_s <= self.now_s + _CLOSE_S)
            for vm in self.vms
        )

    @property
    def left_s(self) -> float:
        """Seconds of work that are left."""
        return self.terms.work_s - self.done_s

    def order(self, target: Target, *, train_on: bool = True) -> None:
        """Asks for VMs; what there is beyond the target goes once the target is complete."""
        self.target = target
        known = len(self.news)
        for is_spot, wanted in ((True, target[0]), (False, target[1])):
            held = self.count(is_spot=is_spot)
            for _ in range(wanted - held):
                self._launch(is_spot=is_spot)
        refused = any(happening.what == "failed" for happening in self.news[known:])
        if target == (0, 0) or not (train_on or refused):
            self._release_surplus(target)
        self._settle()

    def advance(self, until_s: float) -> None:
        """Lets time pass, no further than to the next thing that a policy must be told."""
        known = len(self.news)
        while (
            self.now_s < until_s - _CLOSE_S and self.left_s > _CLOSE_S and len(self.news) == known
        ):
            pace = len(self.training) / self.terms.vms
            stalled = self._stalled_until_s > self.now_s + _CLOSE_S
            steps = [until_s]
            if stalled:
                steps.append(self._stalled_until_s)
            elif pace:
                steps.append(self.now_s + self.left_s / pace)
            steps += [vm.ready_s for vm in self.vms if vm.ready_s > self.now_s + _CLOSE_S]
            change_s = self.terms.trace.next_change_s(self.terms.start_s + self.now_s)
            steps.append(change_s - self.terms.start_s)
            next_s = min(steps)
            if pace and not stalled:
                self.done_s += (next_s - self.now_s) * pace
                every_s = self.terms.checkpoint_s
                kept_s = math.floor((self.done_s + _CLOSE_S) / every_s) * every_s
                self.durable_s = max(self.durable_s, min(kept_s, self.done_s))
            self.now_s = next_s
            self._reclaim()
            self._settle()

    def finish(self) -> None:
        """Releases everything."""
        self._release_surplus((0, 0))

    def _launch(self, *, is_spot: bool) -> None:
        self._serial += 1
        name = f"vm{self._serial}"
        if is_spot and self.count(is_spot=True) >= self.spot_capacity():
            self.news.append(Happening(self.now_s, "failed", name, is_spot))
            return
        runs_s = self.now_s + self.terms.launch_s
        self.vms.append(Vm(name, is_spot, runs_s, runs_s + self.terms.setup_s))
        self.news.append(Happening(self.now_s, "launched", name, is_spot))

    def _reclaim(self) -> None:
        """Takes back the youngest spot VMs beyond what the pool holds."""
        surplus = self.count(is_spot=True) - self.spot_capacity()
        if surplus <= 0:
            return
        spot = sorted((vm for vm in self.vms if vm.is_spot), key=lambda vm: vm.billed_from_s)
        lost = spot[len(spot) - surplus :]
        for vm in lost:
            self._remove(vm)
            ran = vm.billed_from_s <= self.now_s
            self.news.append(
                Happening(self.now_s, "preempted" if ran else "failed", vm.name, is_spot=True)
            )
        names = {vm.name for vm in lost}
        if names & set(self.training):
            self.interruptions += 1
            self.done_s = self.durable_s
            self.training = tuple(name for name in self.training if name not in names)
            self._stalled_until_s = self.now_s + self.terms.restore_s

    def _settle(self) -> None:
        """Lets the target take over once it is complete."""
        ready = {vm.name: vm for vm in self.vms if vm.ready_s <= self.now_s + _CLOSE_S}
        spot = [name for name, vm in ready.items() if vm.is_spot][: self.target[0]]
        firm = [name for name, vm in ready.items() if not vm.is_spot][: self.target[1]]
        complete = (len(spot), len(firm)) == self.target
        chosen = (*spot, *firm)
        if not complete or not chosen:
            return
        if set(chosen) != set(self.training):
            if self.done_s > 0:
                self.durable_s = self.done_s
                self._stalled_until_s = self.now_s + self.terms.restore_s
            self.training = chosen
        self._release_surplus(self.target)

    def _release_surplus(self, target: Target) -> None:
        """Lets VMs beyond a target go, those that do not train first, after a checkpoint."""
        for is_spot, wanted in ((True, target[0]), (False, target[1])):
            own = [vm for vm in self.vms if vm.is_spot == is_spot]
            own.sort(key=lambda vm: (vm.name not in self.training, vm.ready_s))
            for vm in own[wanted:]:
                if vm.name in self.training:
                    self.durable_s = self.done_s
                    self._stalled_until_s = self.now_s + self.terms.restore_s
                    self.training = tuple(n for n in self.training if n != vm.name)
                self._remove(vm)
                self.news.append(Happening(self.now_s, "released", vm.name, is_spot))

    def _remove(self, vm: Vm) -> None:
        self.vms.remove(vm)
        self.spent_usd += self._bill_usd(vm)

    def _bill_usd(self, vm: Vm) -> float:
        if vm.billed_from_s > self.now_s:
            return 0.0
        terms = self.terms
        usd_per_hour = terms.spot_usd_per_hour if vm.is_spot else terms.on_demand_usd_per_hour
        billed_s = max(self.now_s - vm.billed_from_s, terms.minimum_s)
        return usd_per_hour * billed_s / _S_PER_HOUR

    @property
    def bill_usd(self) -> float:
        """Dollars so far, VMs that still run included."""
        return self.spent_usd + sum(self._bill_usd(vm) for vm in self.vms)


Look = Callable[[World, Sequence[Happening]], float]
"""A policy: is told what happened, orders, and returns when it wants to look again."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    met: bool
    time_s: float
    cost_usd: float
    interruptions: int


def run(terms: Terms, look: Look) -> Outcome:
    """Returns how a job ends under a policy; it is given up at twice its deadline.

    Work left at the deadline goes on: what counts then is that it was missed.
    """
    world = World(terms)
    give_up_s = 2 * terms.deadline_s
    while world.left_s > _CLOSE_S and world.now_s < give_up_s:
        again_s = world.now_s
        for _ in range(_LOOKS_AT_ONCE):
            told, world.news = world.news, []
            again_s = look(world, told)
            if not any(happening.what == "failed" for happening in world.news):
                break
        world.advance(min(max(again_s, world.now_s + 1.0), give_up_s))
    world.finish()
    met = world.left_s <= _CLOSE_S and world.now_s <= terms.deadline_s + _CLOSE_S
    return Outcome(met, world.now_s, world.spent_usd, world.interruptions)
