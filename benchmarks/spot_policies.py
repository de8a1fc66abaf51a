"""What runs a job on the replayed traces: Srifty's own policy, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.spot_world import Happening, Look, Terms, World
from srifty.control import Candidate, PolicyRule, Pools, Situation, decide
from srifty.core import (
    BatchLatency,
    ClusterConfig,
    InstanceType,
    Job,
    Limits,
    Location,
    Market,
    Offer,
    Overheads,
    VmGroup,
    WorkloadProfile,
)
from srifty.core.events import LaunchFailure, Pool, VmEvent, VmEventKind
from srifty.units import GIB

# Divisible by every number of VMs up to 16, so that each cluster serves the same global batch.
_GLOBAL_BATCH = 720_720


def on_demand(terms: Terms) -> Look:
    """Returns the policy that takes no spot VM at all."""

    def look(world: World, _news: Sequence[Happening]) -> float:
        world.order((0, terms.vms))
        return world.now_s + terms.look_s

    return look


def spot_with_restart(terms: Terms) -> Look:
    """Returns the policy that takes whatever spot VMs there are, and nothing else."""

    def look(world: World, _news: Sequence[Happening]) -> float:
        world.order((min(terms.vms, world.spot_capacity()), 0))
        return world.now_s + terms.look_s

    return look


def paper_rule(terms: Terms) -> Look:
    """Returns the rule of Luo et al. 2022: a reclaim says that the type is gone for good.

    Survivors are kept; what is missing is replaced by the type's other market.
    """
    kept: list[int] = []

    def look(world: World, news: Sequence[Happening]) -> float:
        if not kept:
            kept.append(min(terms.vms, world.spot_capacity()))
        elif any(happening.what in ("preempted", "failed") for happening in news):
            kept[0] = min(kept[0], world.count(is_spot=True))
        world.order((kept[0], terms.vms - kept[0]))
        return world.now_s + terms.look_s

    return look


def uniform_progress(terms: Terms) -> Look:
    """Returns Uniform Progress (Wu et al. 2024, "Can't Be Late").

    Spot where there is some; without, on-demand while progress lies behind the line from (0, 0) to
    (deadline, work), with the hysteresis of two switches; on-demand for good at the last moment
    that still keeps the deadline.
    """
    switch_s = terms.launch_s + terms.setup_s + terms.restore_s
    state = {"for good": False, "exploiting": False}

    def look(world: World, _news: Sequence[Happening]) -> float:
        at_risk_s = world.done_s - world.durable_s
        needed_s = world.left_s + at_risk_s + terms.restore_s + switch_s + 2 * terms.look_s
        if terms.deadline_s - world.now_s <= needed_s:
            state["for good"] = True
        if state["for good"]:
            world.order((0, terms.vms))
            return world.now_s + terms.look_s
        spot = min(terms.vms, world.spot_capacity())
        share = terms.work_s / terms.deadline_s
        ahead_s = 2 * switch_s if state["exploiting"] else 0.0
        behind = world.done_s <= (world.now_s + ahead_s) * share
        missing = terms.vms - spot if behind else 0
        state["exploiting"] = missing > 0
        world.order((spot, missing))
        return world.now_s + terms.look_s

    return look


@dataclass
class _Run:
    """What the controller of a real run would keep."""

    job: Job
    rule: PolicyRule
    candidates: dict[tuple[int, int], Candidate]
    pools_of: dict[bool, Pool]
    pools: Pools = field(default_factory=Pools)
    ordered: Candidate | None = None
    has_begun: bool = False


def srifty(terms: Terms, rule: PolicyRule | None = None) -> Look:
    """Returns Srifty's policy, `srifty.control.decide`, told what a real run would be told.

    Args:
        terms: the job.
        rule: its parameters; the defaults where None.
    """
    run = _new_run(terms, rule or PolicyRule(look_s=terms.look_s))

    def look(world: World, news: Sequence[Happening]) -> float:
        _tell(run, news)
        decision = decide(
            run.job, tuple(run.candidates.values()), _situation(run, world), run.pools, run.rule
        )
        run.has_begun = True
        run.ordered = None
        target = (0, 0)
        if decision.config is not None:
            target, run.ordered = next(
                (vms, c) for vms, c in run.candidates.items() if c.config == decision.config
            )
        world.order(target, train_on=decision.train_on)
        return decision.look_again_s

    return look


def _new_run(terms: Terms, rule: PolicyRule) -> _Run:
    """Returns the job, and each mix of spot and on-demand VMs that may run it."""
    kind = InstanceType("a.gpu", "aws", "A", 1, 16 * GIB, 8, 10.0)
    here = Location("region", "zone")
    spot = Offer(kind, Market.SPOT, here, terms.spot_usd_per_hour, terms.vms)
    firm = Offer(kind, Market.ON_DEMAND, here, terms.on_demand_usd_per_hour, terms.vms)
    profile = WorkloadProfile("replay", "A", (BatchLatency(1, 0.3, 0.6),), max_batch=_GLOBAL_BATCH)
    job = Job(
        "replay",
        (profile,),
        _GLOBAL_BATCH,
        iterations=max(round(terms.work_s), 1),
        limits=Limits(deadline_s=terms.deadline_s),
        overheads=Overheads(
            launch_s=terms.launch_s,
            setup_s=terms.setup_s,
            restore_s=terms.restore_s,
            checkpoint_every=round(terms.checkpoint_s),
        ),
    )
    candidates: dict[tuple[int, int], Candidate] = {}
    for vms in range(1, terms.vms + 1):
        for on_spot in range(vms + 1):
            if on_spot not in (0, vms) and vms != terms.vms:
                continue
            groups = [
                VmGroup(offer, count, _GLOBAL_BATCH // vms, 1)
                for offer, count in ((spot, on_spot), (firm, vms - on_spot))
                if count
            ]
            config = ClusterConfig(tuple(groups))
            candidates[on_spot, vms - on_spot] = Candidate.of(config, terms.vms / vms)
    return _Run(job, rule, candidates, {True: Pool.of(spot), False: Pool.of(firm)})


def _tell(run: _Run, news: Sequence[Happening]) -> None:
    """Passes on what happened, as a back end would."""
    for happening in news:
        pool = run.pools_of[happening.is_spot]
        if happening.what == "released":
            run.pools = run.pools.released(pool, happening.vm, happening.at_s)
            continue
        failed = happening.what == "failed"
        event = VmEvent(
            happening.at_s,
            VmEventKind(happening.what),
            happening.vm,
            pool,
            LaunchFailure.CAPACITY if failed else None,
        )
        run.pools = run.pools.after(event, run.rule.pools)


def _situation(run: _Run, world: World) -> Situation:
    """Returns where the run stands."""
    training = [vm.is_spot for vm in world.vms if vm.name in world.training]
    boots = [vm.ready_s - world.now_s for vm in world.vms if vm.ready_s > world.now_s]
    both = (True, False)
    return Situation(
        now_s=world.now_s,
        iterations_left=world.left_s,
        spent_usd=world.bill_usd,
        at_risk=world.done_s - world.durable_s,
        running=run.candidates.get((sum(training), len(training) - sum(training))),
        ordered=run.ordered,
        ready={run.pools_of[s]: world.count(is_spot=s, ready=True) for s in both},
        booting={run.pools_of[s]: world.count(is_spot=s, ready=False) for s in both},
        boot_left_s=max(boots, default=0.0),
        has_begun=run.has_begun,
    )


RIVALS: dict[str, Callable[[Terms], Look]] = {
    "on-demand": on_demand,
    "the paper's rule": paper_rule,
    "Uniform Progress": uniform_progress,
    "spot with restart": spot_with_restart,
}
