"""What going on with one plan would mean from here: seconds, dollars, and what a loss would leave.

    time(c) = boot + restore + (L − boot/t_now) t_c + pauses      boot: the present VMs train on
    cost(c) = present price · boot + price(c) · (set-up of new VMs + restore + …)

`L` iterations are left, `t_c` seconds each takes; `boot` is 0 where all VMs are there already. For
a limit, `t_c` is taken at the job's confidence; a measured pace has no spread that would last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from scipy.special import ndtri

from srifty.control.pools import Pools
from srifty.control.situation import Candidate, PolicyRule, Situation
from srifty.core.events import Pool
from srifty.core.job import Job, Objective

_S_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Outlook:
    """The remaining job as seen from one situation.

    Attributes:
        job: the whole job: its limits count from the command.
        situation: where the run stands.
        pools: what is known of the pools.
        rule: what the policy weighs with.
    """

    job: Job
    situation: Situation
    pools: Pools
    rule: PolicyRule

    @cached_property
    def time_left_s(self) -> float:
        """Seconds until the deadline; infinite without one."""
        deadline_s = self.job.limits.deadline_s
        return math.inf if deadline_s is None else deadline_s - self.situation.now_s

    @cached_property
    def money_left_usd(self) -> float:
        """Dollars until the budget is spent; infinite without one."""
        budget_usd = self.job.limits.budget_usd
        return math.inf if budget_usd is None else budget_usd - self.situation.spent_usd

    @cached_property
    def kept(self) -> Mapping[Pool, int]:
        """VMs by pool that run or boot, without the one that is too slow to keep."""
        kept = dict(self.situation.ready)
        for pool, count in self.situation.booting.items():
            kept[pool] = kept.get(pool, 0) + count
        if self.situation.slow_vm is not None:
            pool = self.situation.slow_vm[1]
            kept[pool] = kept.get(pool, 0) - 1
        return kept

    @cached_property
    def _quantile(self) -> float:
        return float(ndtri(self.job.limits.confidence))

    @cached_property
    def pauses_s(self) -> float:
        """Seconds of evaluations and checkpoints that are still to come."""
        overheads = self.job.overheads
        return overheads.billed_s(int(self.situation.iterations_left)) - overheads.setup_s

    def is_obtainable(self, candidate: Candidate) -> bool:
        """Whether its VMs are there, or may be asked for."""
        now_s = self.situation.now_s
        return all(
            count <= self.kept.get(pool, 0) or self.pools.is_open(pool, now_s)
            for pool, count in candidate.vms.items()
        )

    def is_running(self, candidate: Candidate) -> bool:
        """Whether it is what trains now, with all its VMs fit to be kept."""
        running = self.situation.running
        return (
            running is not None
            and self.situation.slow_vm is None
            and (candidate is running or candidate.config == running.config)
        )

    def iteration_s(self, candidate: Candidate, *, at_confidence: bool = False) -> float:
        """Returns seconds of an iteration: as measured where it runs, else as forecast."""
        if self.situation.pace is not None and self.is_running(candidate):
            return self.situation.pace.iteration_s
        spread_s = self._quantile * candidate.spread_s if at_confidence else 0.0
        return candidate.iteration_s + spread_s

    def boot_s(self, candidate: Candidate) -> float:
        """Returns seconds until all its VMs are set up."""
        if self.is_running(candidate):
            return 0.0
        ready, slow = self.situation.ready, self.situation.slow_vm
        missing = [
            pool
            for pool, count in candidate.vms.items()
            if count > ready.get(pool, 0) - (slow is not None and slow[1] == pool)
        ]
        if not missing:
            return 0.0
        if all(candidate.vms[pool] <= self.kept.get(pool, 0) for pool in missing):
            return self.situation.boot_left_s
        return self.job.overheads.launch_s + self.job.overheads.setup_s

    def restore_s(self, candidate: Candidate) -> float:
        """Returns seconds for which nothing trains when it takes over."""
        at_start = self.situation.iterations_left >= self.job.iterations
        goes_on = self.is_running(candidate) and not self.situation.is_idle
        return 0.0 if goes_on or at_start else self.job.overheads.restore_s

    def finish_s(self, candidate: Candidate, *, at_confidence: bool = True) -> float:
        """Returns seconds from now to the end if it is gone on with and nothing is lost."""
        boot_s = self.boot_s(candidate)
        left = max(self.situation.iterations_left - self._made_meanwhile(boot_s), 0.0)
        work_s = left * self.iteration_s(candidate, at_confidence=at_confidence)
        return boot_s + self.restore_s(candidate) + work_s + self.pauses_s

    def cost_usd(self, candidate: Candidate, *, at_confidence: bool = True) -> float:
        """Returns dollars from now to the end if it is gone on with and nothing is lost."""
        boot_s = self.boot_s(candidate)
        extra = self.job.extra_usd_per_hour
        running = self.situation.running
        meanwhile = 0.0 if running is None else running.usd_per_hour
        later_s = self.finish_s(candidate, at_confidence=at_confidence) - boot_s
        setup_s = min(boot_s, self.job.overheads.setup_s)
        hours = boot_s * (meanwhile + extra) + later_s * (candidate.usd_per_hour + extra)
        return (hours + setup_s * self._new_usd_per_hour(candidate)) / _S_PER_HOUR

    def meets_limits(self, candidate: Candidate) -> bool:
        """Whether both limits hold at the asked confidence if nothing is lost."""
        return (
            self.finish_s(candidate) <= self.time_left_s
            and self.cost_usd(candidate) <= self.money_left_usd
        )

    def rescue_s(self, candidate: Candidate) -> float:
        """Returns seconds to the end if all else stops now; launching included unless it runs."""
        start_s = self.restore_s(candidate) if self.is_running(candidate) else self._start_s
        work_s = self.situation.iterations_left * self.iteration_s(candidate, at_confidence=True)
        return start_s + work_s + self.pauses_s

    def rescue_usd(self, candidate: Candidate) -> float:
        """Returns dollars to the end if all else stops now."""
        billed_s = self.rescue_s(candidate)
        if not self.is_running(candidate):
            billed_s -= self.job.overheads.launch_s
        usd_per_hour = candidate.usd_per_hour + self.job.extra_usd_per_hour
        return billed_s * usd_per_hour / _S_PER_HOUR

    def usd_per_iteration(self, candidate: Candidate) -> float:
        """Returns dollars of one iteration: as measured where it runs, else as forecast."""
        usd_per_hour = candidate.usd_per_hour + self.job.extra_usd_per_hour
        return self.iteration_s(candidate) * usd_per_hour / _S_PER_HOUR

    def loss_s(self, fallback: Candidate) -> float:
        """Returns seconds that the worst loss costs: work since the checkpoint, and a new start."""
        iteration_s = self.iteration_s(fallback, at_confidence=True)
        redo_s = self.situation.at_risk * iteration_s + self.rule.look_s
        if self.job.overheads.checkpoint_every is not None:
            redo_s = max(
                self.job.overheads.checkpoint_every * iteration_s,
                self.situation.at_risk * iteration_s,
            )
        return redo_s + self._start_s

    def usual_loss_s(self, fallback: Candidate) -> float:
        """Returns seconds that a loss costs on average: half the work between two checkpoints."""
        lost = (self.job.overheads.checkpoint_every or 2 * self.situation.at_risk) / 2
        return lost * self.iteration_s(fallback) + self._start_s

    @property
    def _start_s(self) -> float:
        overheads = self.job.overheads
        return overheads.launch_s + overheads.setup_s + overheads.restore_s

    def interruptions_to_come(self, fallback: Candidate) -> float:
        """Returns how often VMs would be reclaimed if the rest were done in the pools known of."""
        now_s = self.situation.now_s
        lasting_s = [
            self.pools.lasting_s(pool, now_s, self.rule.pools) for pool in self.pools.records
        ]
        return (
            self.situation.iterations_left
            * self.iteration_s(fallback)
            / min(lasting_s, default=math.inf)
        )

    def margin_s(self, candidate: Candidate | None, fallback: Candidate) -> float:
        """Returns seconds to spare if a candidate is lost at the worst moment.

        At zero the point of no return is reached (Wu et al. 2024, "Can't Be Late", safety net): any
        later, the fallback could not keep the deadline. Time in which less is done than the
        fallback would do counts until the next look.

        Args:
            candidate: what is gone on with; None: nothing, waiting.
            fallback: firm VMs that would finish the job.
        """
        fallback_s = self.iteration_s(fallback, at_confidence=True)
        needed_s = self.situation.iterations_left * fallback_s + self.pauses_s
        needed_s += self.loss_s(fallback)
        idle = 1.0
        if candidate is not None:
            needed_s += self.restore_s(candidate)
            if self.situation.running is None:
                needed_s += self.boot_s(candidate)
            idle = max(1.0 - fallback_s / self.iteration_s(candidate), 0.0)
        return self.time_left_s - needed_s - idle * self.rule.look_s

    def score(self, candidate: Candidate, fallback: Candidate | None) -> float:
        """Returns the objective's part per iteration, switching and expected loss shared out.

        Switching and the loss at the end of a stay are shared among the iterations that are made
        before VMs are expected to be lost. Where time is no objective, slack that is used up has a
        price (`PolicyRule.slack_worth`). Forecasts are compared with forecasts: what is measured
        differs from them for reasons that another plan may share, and a plan is given up for its
        pace by the alarm alone.
        """
        iteration_s = candidate.iteration_s
        work_s = max(self.situation.iterations_left, 1.0) * iteration_s
        now_s = self.situation.now_s
        lasting_s = min(
            self.pools.lasting_s(pool, now_s, self.rule.pools) for pool in candidate.vms
        )
        stay_s = max(min(work_s, lasting_s), iteration_s)
        overheads = self.job.overheads
        redo_s = 0.0
        if lasting_s < work_s:
            redo_s = (overheads.checkpoint_every or 0) * iteration_s / 2 + overheads.restore_s
        boot_s = self.boot_s(candidate)
        if self.job.objective is Objective.TIME:
            delay_s = boot_s - self._made_meanwhile(boot_s) * iteration_s
            start_s = max(delay_s, 0.0) + self.restore_s(candidate)
            if redo_s:
                redo_s += overheads.launch_s + overheads.setup_s
            return iteration_s * (1.0 + (start_s + redo_s) / stay_s)
        usd = (self.restore_s(candidate) + redo_s) * candidate.usd_per_hour
        usd += min(boot_s, overheads.setup_s) * self._new_usd_per_hour(candidate)
        shared = usd / _S_PER_HOUR * iteration_s / stay_s
        return self._forecast_usd(candidate) + shared + self._slack_usd(candidate, fallback)

    def _forecast_usd(self, candidate: Candidate) -> float:
        """Returns dollars of one iteration as forecast, whether or not it runs."""
        usd_per_hour = candidate.usd_per_hour + self.job.extra_usd_per_hour
        return candidate.iteration_s * usd_per_hour / _S_PER_HOUR

    def _slack_usd(self, candidate: Candidate, fallback: Candidate | None) -> float:
        """Returns the price per iteration of slack that a plan slower than the fallback uses."""
        if fallback is None or math.isinf(self.time_left_s):
            return 0.0
        used = candidate.iteration_s / fallback.iteration_s - 1.0
        saved_usd = self._forecast_usd(fallback) - self._forecast_usd(candidate)
        return self.rule.slack_worth * max(used, 0.0) * max(saved_usd, 0.0)

    def _made_meanwhile(self, boot_s: float) -> float:
        """Returns iterations that the present VMs make while new ones boot."""
        running, pace = self.situation.running, self.situation.pace
        if running is None:
            return 0.0
        boot_s = max(boot_s - self.restore_s(running), 0.0)
        return boot_s * pace.mean if pace is not None else boot_s / running.iteration_s

    def usd_per_hour_beside(self, candidate: Candidate) -> float:
        """Returns the price of an hour of what runs, without the VMs that a candidate keeps."""
        running = self.situation.running
        if running is None:
            return 0.0
        prices = {Pool.of(g.offer): g.offer.usd_per_hour for g in running.config.groups}
        return sum(
            max(count - candidate.vms.get(pool, 0), 0) * prices[pool]
            for pool, count in running.vms.items()
        )

    def _new_usd_per_hour(self, candidate: Candidate) -> float:
        """Returns the price of an hour of those VMs that are not there yet."""
        prices = {Pool.of(g.offer): g.offer.usd_per_hour for g in candidate.config.groups}
        return sum(
            max(count - self.kept.get(pool, 0), 0) * prices[pool]
            for pool, count in candidate.vms.items()
        )
