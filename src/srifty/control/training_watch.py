"""Watching workers: whether they run, hang, are slow, or have ended, and what that means."""

from __future__ import annotations

import time

from srifty.cloud.backend import Backend, WorkersStatus
from srifty.cloud.clock import Clock
from srifty.control.account import Account
from srifty.control.fleet import Phase
from srifty.control.hands import Hands
from srifty.control.ledger import Ledger
from srifty.control.pace import watch
from srifty.control.restoring import FINISHED
from srifty.control.run_order import Ending, RunRule
from srifty.control.run_state import RunState, Training
from srifty.control.situation import PolicyRule
from srifty.core.events import Progress
from srifty.core.job import Job


class TrainingWatch:
    """Watches the world that trains.

    Args:
        state: of the run; says afterwards what became of the world.
        job: what is trained.
        backend: where the workers are.
        ledger: of the run.
        clock: of the run.
        hands: ends what cannot go on.
        account: what the run costs.
        policy: how the pace is judged.
        rule: how long is waited for what.
    """

    def __init__(
        self,
        state: RunState,
        job: Job,
        backend: Backend,
        ledger: Ledger,
        clock: Clock,
        hands: Hands,
        account: Account,
        *,
        policy: PolicyRule,
        rule: RunRule,
    ) -> None:
        self._state = state
        self._job = job
        self._backend = backend
        self._ledger = ledger
        self._clock = clock
        self._hands = hands
        self._account = account
        self._policy = policy
        self._rule = rule

    def look(self) -> None:
        """Ends what cannot go on, and notes what ended."""
        state = self._state
        training = state.training
        if training is None:
            return
        workers = [w for w in self._backend.workers() if w.generation == training.world.generation]
        there = {w.vm for w in workers}
        lost = [vm for vm in training.vms if vm not in there or not self._can_train(vm)]
        ended = [w for w in workers if w.status is WorkersStatus.ENDED]
        failed = [w for w in ended if w.exit_code]
        if len(ended) == len(workers):
            self._note_end(training, failed[0].log if failed else "", is_whole=not (lost or failed))
        elif training.is_ending:
            if training.saves and self._saves_no_more(training, is_broken=bool(lost or failed)):
                self._hands.say("the workers do not stop; they are killed")
                self._hands.end_training(saves=False, again=True)
        elif lost or failed:
            what = ", ".join(lost) if lost else f"workers of {failed[0].vm} (see {failed[0].log})"
            self._hands.say(f"training breaks off: {what} gone")
            self._hands.end_training(saves=False)
        elif self._is_silent(training):
            self._hands.say("no step for too long; the workers are killed and started anew")
            self._hands.end_training(saves=False)
        else:
            self._watch_pace(training)

    def _saves_no_more(self, training: Training, *, is_broken: bool) -> bool:
        """Whether workers that were to save and stop have had their time."""
        now_s = time.monotonic()
        if is_broken and training.broke_s is None:
            training.broke_s = now_s
        if training.broke_s is not None and now_s - training.broke_s > self._rule.broken_s:
            return True
        return now_s - training.stop_s > self._rule.save_s

    def _can_train(self, name: str) -> bool:
        state = self._state
        vm = state.fleet.vms[name]
        return vm.phase in (Phase.READY, Phase.NOTICED)

    def _is_silent(self, training: Training) -> bool:
        state = self._state
        now_s = self._clock.now_s()
        factor = self._clock.factor
        is_new = state.log.heard_at_s <= training.began_at_s
        if is_new or state.log.iteration <= training.from_iteration:
            return now_s - training.began_at_s > self._rule.start_s * factor
        overheads = self._job.overheads
        allowed_s = self._rule.silence_s * factor
        if state.pace is not None:
            allowed_s = max(allowed_s, 10 * state.pace.iteration_s)
        every = overheads.evaluation_every
        if every is not None and state.log.iteration % every == 0:
            allowed_s += 2 * overheads.evaluation_s
        return now_s - state.log.heard_at_s > allowed_s

    def _watch_pace(self, training: Training) -> None:
        state = self._state
        now_s = self._clock.now_s()
        limits = self._job.limits
        left = self._job.iterations - state.log.iteration
        least = 0.0
        if limits.deadline_s is not None:
            least = left / max(limits.deadline_s - now_s, 1e-9)
        if limits.budget_usd is not None:
            money_usd = limits.budget_usd - self._account.spent_usd(now_s)
            per_s = self._account.usd_per_hour(training.config) / 3600
            least = max(least, left * per_s / max(money_usd, 1e-9))
        for at_s, iteration in state.log.made:
            point = Progress(at_s, iteration, min(state.log.durable, iteration))
            training.watch, state.pace = watch(training.watch, point, least, self._policy.pace)
        judged_s = training.watch.judged_at_s
        if training.watch.is_alarm(self._policy.pace) and judged_s > training.alarmed_s:
            training.alarmed_s = judged_s
            state.must_decide = True

    def _note_end(self, training: Training, log: str, *, is_whole: bool) -> None:
        """Notes that a world has ended, and what that means."""
        state = self._state
        now_s = self._clock.now_s()
        total = self._job.iterations
        # What is saved is made, whether or not the script came to its last line.
        is_finished = state.log.durable >= total or (is_whole and state.log.iteration >= total)
        step = training.step
        if step is None:
            step = self._ledger.begin("end-world", {"generation": training.world.generation}, now_s)
        ended = {"iteration": state.log.iteration, "is_finished": is_finished}
        self._ledger.done(step, now_s, ended)
        state.training = None
        state.pace = None
        state.must_decide = True
        if is_finished:
            state.outcome = FINISHED
            return
        noticed = any(state.fleet.vms[vm].phase is not Phase.READY for vm in training.vms)
        if is_whole and not training.is_ending and not noticed:
            state.outcome = (
                Ending.UNFINISHED,
                f"The script ended by itself after {state.log.iteration:,} of {total:,} iterations;"
                " make `iterations` in the job file and the script's own steps agree.",
            )
            return
        at_risk = max(state.log.iteration - state.log.durable, 0)
        if at_risk and not is_whole:
            self._hands.say(f"{at_risk} iterations since the last checkpoint are made again")
        state.log.iteration = min(state.log.iteration, state.log.durable)
        state.stalls = state.stalls + 1 if state.log.durable <= training.from_iteration else 0
        if training.is_ending and training.saves:
            state.stalls = 0
        if state.stalls >= self._rule.most_stalls:
            where = f" The last one's output is in {log}." if log else ""
            state.outcome = (
                Ending.UNFINISHED,
                f"No progress: {state.stalls} starts in a row ended before a checkpoint newer than "
                f"iteration {state.log.durable:,}.{where}",
            )
