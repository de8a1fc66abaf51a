"""Watching workers: whether they run, hang, are slow, or have ended, and what that means."""

from __future__ import annotations

import time
from pathlib import Path

from srifty.cloud.backend import Backend, VmWorkers, WorkersStatus
from srifty.cloud.clock import Clock
from srifty.control.account import Account
from srifty.control.blame import Culprit, blame
from srifty.control.fleet import Phase
from srifty.control.hands import Hands
from srifty.control.last_words import last_words
from srifty.control.ledger import Ledger
from srifty.control.lessons import lessons
from srifty.control.pace import watch
from srifty.control.planning import Planning
from srifty.control.restoring import FINISHED
from srifty.control.run_order import Ending, RunRule
from srifty.control.run_state import RunState, Training
from srifty.control.situation import PolicyRule
from srifty.core.events import Progress, WorkerStep

# Steps of a world that do not count, and those after them by which it is first judged.
_WARM_UP = 5
_TRIAL = 10
# Part of the forecast by which first steps must be longer to be acted on at once.
_FAR_OFF = 0.5


class TrainingWatch:
    """Watches the world that trains.

    Args:
        state: of the run; says afterwards what became of the world.
        planning: the job, and what its iterations were forecast from.
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
        planning: Planning,
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
        self._job = planning.job
        self._planning = planning
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
        if len(ended) == len(workers) and not training.has_ended:
            # What they said last may have come after it was read: it is judged at the next look.
            training.has_ended = True
        elif len(ended) == len(workers):
            if failed and not training.is_ending:
                self._hands.say(f"training breaks off: {_fault(failed[0])}")
            self._note_end(training, failed[0].log if failed else "", is_whole=not (lost or failed))
        elif training.is_ending:
            if training.saves and self._saves_no_more(training, is_broken=bool(lost or failed)):
                self._hands.say("the workers do not stop; they are killed")
                self._hands.end_training(saves=False, again=True)
        elif lost or failed:
            what = f"{', '.join(lost)} gone" if lost else _fault(failed[0])
            self._hands.say(f"training breaks off: {what}")
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
        if judged_s > training.blamed_s:
            training.blamed_s = judged_s
            self._find_culprit(training)
        self._try_first_steps(training, now_s)

    def _try_first_steps(self, training: Training, now_s: float) -> None:
        """Looks once at the first steps: what is far off then need not be watched for minutes."""
        made = self._state.log.iteration - training.from_iteration
        if training.warm_s is None and made >= _WARM_UP:
            training.warm_s = now_s
        if training.warm_s is not None and not training.is_tried and made >= _WARM_UP + _TRIAL:
            training.is_tried = True
            self._find_culprit(training, tried_since_s=training.warm_s)

    def _find_culprit(self, training: Training, tried_since_s: float | None = None) -> None:
        """Says what makes training slow, and carries over what that means for other plans.

        Args:
            training: what trains.
            tried_since_s: seconds since the command from which on the first steps count, where they
                are judged; what is far off then is believed at once.
        """
        state = self._state
        rule = self._policy.pace
        vm_of = [vm.vm for vm in training.world.vms for _ in range(vm.workers)]
        window_s = rule.misses * rule.stride * rule.window_s
        steps: tuple[WorkerStep, ...] = ()
        began_s = training.began_at_s if tried_since_s is None else tried_since_s
        for back_s in (window_s, rule.window_s):
            since_s = max(self._clock.now_s() - back_s, began_s)
            steps = steps or state.log.worker_steps(vm_of, since_s, self._clock.factor)
        if not steps:
            return
        forecast = self._planning.forecast(training.config)
        found = blame(steps, forecast)
        before, training.suspect = training.suspect, found
        # That all are slow alike may be the warming up.
        is_far_off = (
            tried_since_s is not None
            and found.culprit in (Culprit.VM, Culprit.NETWORK)
            and found.excess_s >= _FAR_OFF * forecast.mean_s
        )
        if not ((found.is_same(before) and found.culprit is not Culprit.NOTHING) or is_far_off):
            state.blame = None  # what slows two windows in a row lasts
            return
        if not found.is_same(state.blame):
            self._hands.say(str(found))
            state.must_decide = True
        state.blame = found
        learned = lessons(self._planning, training.config, steps, found)
        if learned is not None and not learned.is_near(state.learned):
            self._hands.learn(learned)

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
        state.blame = None
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
            words = last_words(Path(log)) if log else ""
            where = f" The last one said {words!r}; all of it is in {log}." if log else ""
            state.outcome = (
                Ending.UNFINISHED,
                f"No progress: {state.stalls} starts in a row ended before a checkpoint newer than "
                f"iteration {state.log.durable:,}.{where}",
            )


def _fault(failed: VmWorkers) -> str:
    """Returns how a VM's workers failed, for people."""
    words = last_words(Path(failed.log))
    said = f": {words}" if words else ""
    return f"the workers of {failed.vm} failed with code {failed.exit_code}{said} ({failed.log})"
