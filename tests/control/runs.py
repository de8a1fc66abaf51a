"""A run on a simulated clock: steady or slow, with a policy that is asked as a controller would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from srifty.control import Candidate, PolicyRule, Pools, Situation, Watch, decide, watch
from srifty.control.situation import least_pace
from srifty.core import Job, Limits, Market, Offer, Overheads
from srifty.core.events import Decision, Pool, Progress
from tests.builders import make_config, make_job, make_offer, make_type

SMALL, LARGE = make_type("a1.small"), make_type("b1.large", gpu="B")


def offer(kind=SMALL, usd_per_hour=1.0, market=Market.ON_DEMAND) -> Offer:
    return make_offer(kind, usd_per_hour, market)


def candidate(*groups: tuple[Offer, int], iteration_s: float, spread_s: float = 0.0) -> Candidate:
    vms = sum(count for _, count in groups)
    return Candidate.of(
        make_config(*((each, count, 64 // vms) for each, count in groups)), iteration_s, spread_s
    )


def job(
    iterations: int = 3600,
    deadline_s: float | None = None,
    budget_usd: float | None = None,
    confidence: float = 0.5,
    **overheads,
) -> Job:
    overheads = {"launch_s": 150.0, "setup_s": 0.0, "restore_s": 5.0, **overheads}
    return make_job(
        iterations=iterations,
        limits=Limits(deadline_s, budget_usd, confidence),
        overheads=Overheads(**overheads),
    )


def vms_of(decision: Decision) -> dict[Pool, int]:
    return dict(Candidate.of(decision.config, 1.0).vms)


@dataclass
class SteadyRun:
    """One configuration that trains, is watched, and whose policy is asked at each report."""

    job: Job
    running: Candidate
    others: Sequence[Candidate]
    rule: PolicyRule = field(default_factory=PolicyRule)
    pools: Pools = field(default_factory=Pools)

    def moves(
        self,
        iteration_s: Callable[[float], float],
        *,
        report_s: float = 10.0,
        until_s: float = float("inf"),
        start_s: float = 150.0,
    ) -> list[Decision]:
        """Decisions other than to stay, each with the run going on as if nobody had acted."""
        now_s, done, state = start_s, 0, Watch()
        reported_s = now_s
        found = []
        while done < self.job.iterations and now_s < until_s:
            now_s += iteration_s(now_s)
            done += 1
            if now_s - reported_s < report_s:
                continue
            reported_s = now_s
            left = self.job.iterations - done
            progress = Progress(now_s, done)
            least = least_pace(self.job, progress, self.running.usd_per_hour)
            state, pace = watch(state, progress, least, self.rule.pace)
            situation = Situation(
                now_s=now_s,
                iterations_left=left,
                running=self.running,
                ordered=self.running,
                ready=self.running.vms,
                pace=pace,
                alarm=state.is_alarm(self.rule.pace),
            )
            decision = decide(
                self.job, (self.running, *self.others), situation, self.pools, self.rule
            )
            if decision.kind != "stay":
                found.append(decision)
        return found


def noisy(mean_s: float, fraction: float, seed: int) -> Callable[[float], float]:
    """Iteration times with independent noise from step to step and a slow wave over minutes."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi)

    def draw(now_s: float) -> float:
        wave = fraction / 2 * np.sin(2 * np.pi * now_s / 400.0 + phase)
        return mean_s * max(1.0 + wave + fraction * rng.standard_normal(), 0.2)

    return draw


def counts(vms: Mapping[Pool, int]) -> dict[str, int]:
    """VMs by `type market`, for short expectations."""
    return {f"{pool.instance_type} {pool.market}": count for pool, count in vms.items()}
