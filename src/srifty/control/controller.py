"""The controller of a run: watches it, decides, and carries decisions out.

Whatever is done to VMs or workers is written into the ledger before it is done, and again when it
was. A controller that is killed at any point is followed by another one that reads the ledger, does
once more what may not have been done (which changes nothing where it was), and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from srifty.cloud.backend import Backend, VmStatus
from srifty.cloud.clock import Clock
from srifty.control.account import Account
from srifty.control.fleet import FleetVm, Phase
from srifty.control.hands import Hands
from srifty.control.learned import Learned
from srifty.control.ledger import Ledger
from srifty.control.planning import Planning
from srifty.control.policy import decide
from srifty.control.preflight import Preflight
from srifty.control.restoring import restored
from srifty.control.run_order import Ending, Outcome, RunOrder, RunRule
from srifty.control.situation import PolicyRule, Situation
from srifty.control.training_log import newest_checkpoint
from srifty.control.training_watch import TrainingWatch
from srifty.core.cluster import ClusterConfig
from srifty.core.events import (
    Cause,
    DecisionKind,
    LaunchFailure,
    Pool,
    Progress,
    VmEvent,
    VmEventKind,
)
from srifty.units import format_usd

# Real seconds that it takes to have workers and VMs end.
_ENDING_S = 2.0


class Controller:
    """Controls one run; see the module.

    Args:
        planning: the job and what plans are made from.
        order: what is run.
        backend: where VMs come from.
        ledger: of the run, open for writing; what it holds is gone on with.
        clock: of the run.
        policy: what decisions are weighed with.
        rule: how the run is watched.
        is_asked_to_stop: asked at each look; a second true answer skips the saving.
        tell: takes a line for people.
    """

    def __init__(
        self,
        planning: Planning,
        order: RunOrder,
        backend: Backend,
        ledger: Ledger,
        clock: Clock,
        *,
        policy: PolicyRule | None = None,
        rule: RunRule | None = None,
        is_asked_to_stop: Callable[[], int] = lambda: 0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._planning = planning
        self._order = order
        self._backend = backend
        self._ledger = ledger
        self._clock = clock
        self._policy = policy or PolicyRule()
        self._rule = rule or RunRule()
        self._is_asked_to_stop = is_asked_to_stop
        self._look_again_s = 0.0
        self._noted_s = float("-inf")
        self._told_tenth = 0
        is_resumed = bool(ledger.steps())
        self._state = restored(ledger, backend, clock, planning.offers, self._policy)
        self._account = Account(ledger, planning.job)
        self._hands = Hands(
            self._state,
            planning,
            order,
            backend,
            ledger,
            clock,
            policy=self._policy,
            rule=self._rule,
            tell=tell,
        )
        self._watch = TrainingWatch(
            self._state,
            planning,
            backend,
            ledger,
            clock,
            self._hands,
            self._account,
            policy=self._policy,
            rule=self._rule,
        )
        self._preflight = Preflight(
            self._state, order, backend, ledger, clock, self._rule, planning, self._hands
        )
        if is_resumed:
            self._hands.say("goes on with this run after its controller was gone")

    def run(self) -> Outcome:
        """Runs to the end, whatever it is; nothing is left that costs money."""
        state = self._state
        while state.outcome is None:
            self.look()
            if state.outcome is None:
                time.sleep(self._rule.tick_s)
        return self._close(state.outcome)

    def look(self) -> None:
        """Looks once at everything, and does what is to be done now."""
        state = self._state
        self._hear()
        if state.outcome is None and self._is_asked_to_stop():
            state.outcome = (Ending.STOPPED, "Stopped as asked.")
        if state.outcome is None:
            self._watch.look()
        if state.outcome is None and self._account.is_spent(self._clock.now_s(), self._reserve_s):
            state.outcome = (Ending.MONEY, "The money is spent.")
        now_s = self._clock.now_s()
        if state.outcome is None and now_s >= self._order.hard_end_s:
            state.outcome = (
                Ending.UNFINISHED,
                "The run's hard end has come: all VMs end then.",
            )
        if state.outcome is None and (state.must_decide or now_s >= self._look_again_s):
            self._decide(now_s)
        if state.outcome is None:
            self._pursue()

    @property
    def _reserve_s(self) -> float:
        """Seconds of the run for which money is kept: to save, to stop, to see VMs end."""
        real_s = 2 * self._rule.tick_s + _ENDING_S
        return self._planning.job.overheads.checkpoint_s + real_s * self._clock.factor

    # What happened.

    def _hear(self) -> None:
        """Takes in events, lines and checkpoints."""
        state = self._state
        events = self._backend.events(state.events)
        if events:
            self._ledger.note_events(state.events, events)
            state.events += len(events)
        for event in events:
            self._meet(event)
        if events:
            self._reconcile()
        state.log.read(self._backend.progress(state.log.after))
        state.log.durable = max(state.log.durable, newest_checkpoint(self._order.checkpoint_folder))
        now_s = self._clock.now_s()
        if state.log.made and now_s - self._noted_s >= self._rule.note_s:
            self._noted_s = now_s
            self._ledger.note_progress(self._progress(now_s))
            self._tell_progress(now_s)

    def _tell_progress(self, now_s: float) -> None:
        """Tells people of each tenth of the iterations, once."""
        made, total = self._state.log.iteration, self._planning.job.iterations
        if self._told_tenth < 10 * made // total < 10:
            self._told_tenth = 10 * made // total
            usd = format_usd(self._account.spent_usd(now_s))
            self._hands.say(f"iteration {made:,} of {total:,}, {usd} in total so far")

    def _reconcile(self) -> None:
        """Has what VMs really are count more than what was heard of them."""
        state = self._state
        states = self._backend.reconcile()
        self._ledger.note_states(states)
        ended = (VmStatus.GONE, VmStatus.FAILED)
        gone = [state.vm for state in states if state.status in ended]
        state.fleet = state.fleet.without([vm for vm in gone if vm in state.fleet.vms])

    def _meet(self, event: VmEvent) -> None:
        state = self._state
        vm = state.fleet.vms.get(event.vm)
        was_kept = vm is not None and vm.is_kept
        state.fleet = state.fleet.after(event)
        if event.kind is VmEventKind.TERMINATED and not was_kept:
            state.pools = state.pools.released(event.pool, event.vm, event.at_s)
            return
        state.pools = state.pools.after(event, self._policy.pools)
        if vm is not None and vm.phase is Phase.ASKED and self._never_came(event):
            self._hands.note_refusal(vm, event.at_s)
        words = f": {event.detail}" if event.detail else ""
        self._hands.say(f"{event.vm}, {event.pool}: {event.kind}{words}", event.at_s)
        if event.failure in (LaunchFailure.PERMISSION, LaunchFailure.UNKNOWN):
            state.outcome = (
                Ending.REFUSED,
                f"The cloud refused {event.pool} ({event.failure}): {event.detail}",
            )
        if event.kind is VmEventKind.LOST:
            self._hands.release([event.vm])  # it may still be billed
        if event.kind is not VmEventKind.LAUNCHED:
            state.must_decide = True

    def _never_came(self, event: VmEvent) -> bool:
        ends = (VmEventKind.LOST, VmEventKind.PREEMPTED, VmEventKind.TERMINATED)
        return event.kind in ends

    def _decide(self, now_s: float) -> None:
        state = self._state
        progress = self._progress(now_s)
        planning = self._planning.without(state.apart).knowing(state.learned)
        candidates = planning.candidates(progress, state.pools, state.fleet.held())
        situation = self._situation(now_s, progress)
        decision = decide(self._planning.job, candidates, situation, state.pools, self._policy)
        is_news = decision.kind is not DecisionKind.STAY or state.must_decide
        if is_news:
            self._ledger.note_decision(decision)
        state.must_decide = False
        self._look_again_s = max(decision.look_again_s, now_s + self._rule.tick_s)
        state.has_begun = True
        match decision.kind:
            case DecisionKind.STOP:
                state.outcome = (
                    Ending.MONEY,
                    "The money would not last until the next look.",
                )
            case DecisionKind.WAIT:
                self._hands.order_config(None, decision)
                if decision.cause is Cause.NO_PLAN and not self._can_ever_go_on():
                    why = "".join(
                        f" {' and '.join(sorted(pair))} could not exchange." for pair in state.apart
                    )
                    words = f"No VMs are left that the job could run on.{why}"
                    state.outcome = (Ending.UNFINISHED, words)
            case _:
                state.trains_on = decision.train_on
                self._hands.order_config(decision.config, decision)
                self._hands.replace(decision.replace)

    def _can_ever_go_on(self) -> bool:
        """Whether waiting may help: some pool opens again, and not all plans are ruled out."""
        pools = self._state.pools
        opens = [Pool.of(offer) for offer in self._planning.offers]
        if not any(not pools.is_lost(pool) for pool in opens):
            return False
        is_closed = any(not pools.is_open(pool, self._clock.now_s()) for pool in opens)
        return is_closed or not self._state.apart

    def _situation(self, now_s: float, progress: Progress) -> Situation:
        state = self._state
        training = state.training
        if training is not None and training.is_ending:
            training = None
        # Until it is measured, what is in force is forecast as the others are.
        known = Learned() if state.pace is not None else state.learned
        planning = self._planning.knowing(known)
        running = state.meanwhile = None
        unwanted = state.fleet.unwanted()
        there = {vm.vm for vm in state.fleet.vms.values() if vm.is_kept or vm in unwanted}
        is_whole = training is not None and set(training.vms) <= there
        if is_whole and training is not None:
            running = planning.candidate(training.config)
        elif state.generation:
            state.meanwhile = self._meanwhile()
            running = state.meanwhile and planning.candidate(state.meanwhile)
        booting = state.fleet.by_pool(Phase.ASKED)
        launch_s = self._planning.job.overheads.launch_s
        boots_s = [
            vm.asked_s + launch_s - now_s for vm in state.fleet.kept() if vm.phase is Phase.ASKED
        ]
        reached = progress.durable_iteration if training is None else progress.iteration
        ready = state.fleet.by_pool(Phase.READY)
        slow = next(iter(unwanted), None) or self._slow_vm()
        for vm in unwanted:
            ready[vm.pool] = ready.get(vm.pool, 0) + 1
        return Situation(
            now_s=now_s,
            iterations_left=max(self._planning.job.iterations - reached, 0.0),
            spent_usd=progress.spent_usd,
            at_risk=max(reached - progress.durable_iteration, 0.0),
            running=running,
            is_idle=running is not None and not is_whole,
            ordered=None if state.target is None else planning.candidate(state.target),
            ready=ready,
            booting=booting,
            boot_left_s=max([*boots_s, 0.0]),
            pace=state.pace if is_whole else None,
            alarm=is_whole and training is not None
            and training.watch.is_alarm(self._policy.pace),
            slow_vm=None if slow is None or running is None else (slow.vm, slow.pool),
            blame=state.blame if running is not None else None,
            has_begun=state.has_begun,
        )  # fmt: skip

    def _slow_vm(self) -> FleetVm | None:
        """Returns the VM that makes the run slow, if one alone does and another would pay."""
        blame = self._state.blame
        if blame is None or blame.vm is None:
            return None
        overheads = self._planning.job.overheads
        switching_s = overheads.launch_s + overheads.setup_s + overheads.restore_s
        left = self._planning.job.iterations - self._state.log.iteration
        vm = self._state.fleet.vms[blame.vm]
        return vm if vm.is_kept and left * blame.vm_excess_s > switching_s else None

    def _meanwhile(self) -> ClusterConfig | None:
        """Returns how the VMs that are there could train until those that boot have come."""
        groups = () if self._state.target is None else self._state.target.groups
        passes = any(group.accumulation > 1 for group in groups)
        planning = self._planning.without(self._state.apart)
        return planning.meanwhile(self._state.fleet.by_pool(Phase.READY), passes=passes)

    def _progress(self, now_s: float) -> Progress:
        state = self._state
        iteration = max(state.log.iteration, 0)
        durable = min(state.log.durable, iteration) if state.training else state.log.durable
        return Progress(now_s, max(iteration, durable), durable, self._account.spent_usd(now_s))

    def _pursue(self) -> None:
        """Brings what there is nearer to what was decided on."""
        state = self._state
        target, training = state.target, state.training
        if target is None:
            if training is not None and not training.is_ending:
                self._hands.end_training(saves=True)
            elif training is None and state.fleet.held():
                self._hands.release(state.fleet.surplus(None, ()))
            return
        pair = self._preflight.due(target) if training is None else None
        asked = self._hands.ask_for_missing(target, most=None if pair is None else 1)
        if pair is not None:
            self._preflight.look(pair)
            return
        members = state.fleet.members(target)
        if training is not None and training.is_ending:
            return
        if members is None:
            if not asked:  # what was just asked for may be refused: then all is decided anew
                self._bridge(target)
        elif training is None:
            if self._preflight.lets_train(members):
                self._hands.start(target, members)
        elif training.config != target or any(
            vm.vm in training.vms for vm in state.fleet.unwanted()
        ):
            self._hands.say("all VMs are there: training saves and moves")
            self._hands.end_training(saves=True)
        else:
            spare = [vm.vm for vm in state.fleet.unwanted()]
            self._hands.release([*state.fleet.surplus(target, training.vms), *spare])

    def _bridge(self, target: ClusterConfig) -> None:
        """Has the VMs that are there train until the target's have come, or lets them go."""
        state = self._state
        training, meanwhile = state.training, state.meanwhile
        if training is not None:
            if not state.trains_on and training.config != target:
                self._hands.say("training saves and waits for the new VMs")
                self._hands.end_training(saves=True)
            return
        members = None if meanwhile is None else state.fleet.members(meanwhile)
        if state.trains_on and meanwhile is not None and members is not None:
            if self._preflight.lets_train(members):
                self._hands.say("what is there trains until the new VMs have come")
                self._hands.start(meanwhile, members)
                state.meanwhile = None
        else:
            self._hands.release(state.fleet.surplus(target, ()))

    def _close(self, outcome: tuple[Ending, str]) -> Outcome:
        """Saves where training is to be gone on with, releases everything, and notes the end."""
        state = self._state
        ending, message = outcome
        closing = state.closing
        if closing is None:
            closing = self._ledger.begin(
                "close", {"ending": ending.value, "message": message}, self._clock.now_s()
            )
        if state.training is not None and not state.training.is_ending:
            self._hands.end_training(saves=ending in (Ending.STOPPED, Ending.MONEY))
        self._wait_for_training()
        self._hands.release(state.fleet.still_there())
        began_s = time.monotonic()
        while state.fleet.still_there() and time.monotonic() - began_s < self._rule.release_s:
            self._hear()
            time.sleep(min(self._rule.tick_s, 0.2))
        self._reconcile()
        now_s = self._clock.now_s()
        left = [state.vm for state in self._backend.reconcile() if state.is_billed]
        if left:
            message += f" STILL BILLED: {', '.join(left)}; run `srifty stop` again."
        if ending is Ending.FINISHED:
            state.log.durable = state.log.iteration = self._planning.job.iterations
        self._ledger.note_progress(self._progress(now_s))
        ended = Outcome(ending, message, now_s, self._account.spent_usd(now_s), state.log.iteration)
        self._close_forecasts(ended)
        self._ledger.done(closing, now_s)
        self._ledger.end(
            {
                "ending": ending.value,
                "message": message,
                "usd": ended.usd,
                "iteration": ended.iteration,
                "still_billed": left,
            },
            now_s,
        )
        return ended

    def _wait_for_training(self) -> None:
        """Waits until the world has ended, at most as long as a save may take."""
        asked = max(self._is_asked_to_stop(), 1)
        began_s = time.monotonic()
        while time.monotonic() - began_s < self._rule.save_s:
            self._hear()
            self._watch.look()
            if self._account.is_spent(self._clock.now_s(), self._clock.factor):
                self._hands.end_training(saves=False, again=True)
            # Who asks once more does not want to wait.
            if self._state.training is None or self._is_asked_to_stop() > asked:
                return
            time.sleep(min(self._rule.tick_s, 0.2))

    def _close_forecasts(self, outcome: Outcome) -> None:
        for forecast in self._ledger.forecasts():
            if forecast.ended_s is None:
                came = {
                    "ending": outcome.ending.value,
                    "time_s": outcome.at_s,
                    "cost_usd": outcome.usd,
                }
                self._ledger.close_forecast(forecast.number, came, outcome.at_s)
