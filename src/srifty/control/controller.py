"""The controller of a run: watches it, decides, and carries decisions out.

Whatever is done to VMs or workers is written into the ledger before it is done, and again when it
was. A controller that is killed at any point is followed by another one that reads the ledger, does
once more what may not have been done (which changes nothing where it was), and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from srifty.cloud.backend import (
    Backend,
    LaunchRequest,
    Prepared,
    VmRequest,
    VmStatus,
    WorkersStatus,
    World,
)
from srifty.cloud.clock import Clock
from srifty.control.crew import (
    config_record,
    pool_record,
    read_config,
    read_pool,
    read_world,
    world_of,
    world_record,
)
from srifty.control.fleet import Fleet, FleetVm, Phase
from srifty.control.ledger import Ledger
from srifty.control.pace import Watch, watch
from srifty.control.planning import Planning
from srifty.control.policy import decide
from srifty.control.pools import Pools
from srifty.control.records import AskedVm
from srifty.control.situation import Candidate, PolicyRule, Situation
from srifty.control.training_log import TrainingLog, newest_checkpoint
from srifty.core.cluster import ClusterConfig
from srifty.core.events import (
    Cause,
    Decision,
    DecisionKind,
    LaunchFailure,
    Pool,
    Progress,
    VmEvent,
    VmEventKind,
)
from srifty.core.notation import format_config
from srifty.core.settings import RunSettings


class Ending(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    REFUSED = "refused"
    MONEY = "money"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class RunRule:
    """How a run is watched.

    Attributes:
        tick_s: real seconds between two looks.
        silence_s: real seconds without a step after which workers count as hung; more where a step
            takes long.
        start_s: real seconds that workers have until their first step.
        save_s: real seconds that workers have to save and stop.
        release_s: real seconds that VMs have to end.
        launch_s: seconds of the run after which a VM that never came counts as refused.
        most_stalls: worlds in a row that may end without a checkpoint newer than before.
        note_s: seconds of the run between two notes of progress.
    """

    tick_s: float = 0.5
    silence_s: float = 30.0
    start_s: float = 300.0
    save_s: float = 120.0
    release_s: float = 30.0
    launch_s: float = 900.0
    most_stalls: int = 5
    note_s: float = 10.0


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What is run, and how.

    Attributes:
        run_id: the run's name.
        user: whose it is.
        command: the training script and its arguments.
        hard_end_s: seconds since the command at which all VMs end themselves.
        settings: how the VMs are set up.
        plays_gpus: whether steps are held to the pace of the GPUs that are planned with.
        checkpoint_folder: where checkpoints can be seen by the controller; None: nowhere.
    """

    run_id: str
    user: str
    command: tuple[str, ...]
    hard_end_s: float
    settings: RunSettings = field(default_factory=RunSettings)
    plays_gpus: bool = False
    checkpoint_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and why.

    Attributes:
        ending: how.
        message: a full sentence.
        at_s: seconds since the command.
        usd: dollars, total for this run.
        iteration: iterations that were made.
    """

    ending: Ending
    message: str
    at_s: float
    usd: float
    iteration: int


@dataclass
class _Training:
    """A world that was started.

    Attributes:
        world: its workers.
        config: what it runs on.
        began_s: real seconds at which it was started.
        from_iteration: the newest checkpoint at its start.
        step: number of the ledger's step that ends it; None while it is to go on.
        saves: whether it was asked to save before its end.
        stop_s: real seconds at which it was asked to end.
        watch: of its pace.
    """

    world: World
    config: ClusterConfig
    began_s: float
    from_iteration: int
    step: int | None = None
    saves: bool = False
    stop_s: float = 0.0
    watch: Watch = field(default_factory=Watch)

    @property
    def is_ending(self) -> bool:
        return self.step is not None

    @property
    def vms(self) -> tuple[str, ...]:
        return tuple(vm.vm for vm in self.world.vms)


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
        self._tell = tell
        self._fleet = Fleet()
        self._pools = Pools()
        self._log = TrainingLog(clock.at_s)
        self._target: ClusterConfig | None = None
        self._training: _Training | None = None
        self._generation = 0
        self._events = 0
        self._stalls = 0
        self._pace: Any = None
        self._has_begun = False
        self._must_decide = True
        self._look_again_s = 0.0
        self._noted_s = float("-inf")
        self._candidates: tuple[Candidate, ...] = ()
        self._outcome: tuple[Ending, str] | None = None
        self._closing: int | None = None
        self._restore()

    def run(self) -> Outcome:
        """Runs to the end, whatever it is; nothing is left that costs money."""
        while self._outcome is None:
            self.look()
            if self._outcome is None:
                time.sleep(self._rule.tick_s)
        return self._close(self._outcome)

    def look(self) -> None:
        """Looks once at everything, and does what is to be done now."""
        self._hear()
        if self._outcome is None and self._is_asked_to_stop():
            self._outcome = (Ending.STOPPED, "Stopped as asked.")
        if self._outcome is None:
            self._watch_training()
        if self._outcome is None:
            self._watch_money()
        now_s = self._clock.now_s()
        if self._outcome is None and now_s >= self._order.hard_end_s:
            self._outcome = (Ending.UNFINISHED, "The run's hard end has come: all VMs end then.")
        if self._outcome is None and (self._must_decide or now_s >= self._look_again_s):
            self._decide(now_s)
        if self._outcome is None:
            self._pursue()

    # What happened.

    def _hear(self) -> None:
        """Takes in events, lines and checkpoints."""
        events = self._backend.events(self._events)
        if events:
            self._ledger.note_events(self._events, events)
            self._events += len(events)
        for event in events:
            self._meet(event)
        if events:
            self._reconcile()
        self._log.read(self._backend.progress(self._log.after))
        self._log.durable = max(self._log.durable, newest_checkpoint(self._order.checkpoint_folder))
        now_s = self._clock.now_s()
        if self._log.made and now_s - self._noted_s >= self._rule.note_s:
            self._noted_s = now_s
            self._ledger.note_progress(self._progress(now_s))

    def _reconcile(self) -> None:
        """Has what VMs really are count more than what was heard of them."""
        states = self._backend.reconcile()
        self._ledger.note_states(states)
        ended = (VmStatus.GONE, VmStatus.FAILED)
        gone = [state.vm for state in states if state.status in ended]
        self._fleet = self._fleet.without([vm for vm in gone if vm in self._fleet.vms])

    def _meet(self, event: VmEvent) -> None:
        vm = self._fleet.vms.get(event.vm)
        was_kept = vm is not None and vm.is_kept
        self._fleet = self._fleet.after(event)
        if event.kind is VmEventKind.TERMINATED and not was_kept:
            self._pools = self._pools.released(event.pool, event.vm, event.at_s)
            return
        self._pools = self._pools.after(event, self._policy.pools)
        if vm is not None and vm.phase is Phase.ASKED and self._never_came(event):
            self._note_refusal(vm, event.at_s)
        words = f": {event.detail}" if event.detail else ""
        self._say(f"{event.vm}, {event.pool}: {event.kind}{words}", event.at_s)
        if event.failure in (LaunchFailure.PERMISSION, LaunchFailure.UNKNOWN):
            self._outcome = (
                Ending.REFUSED,
                f"The cloud refused {event.pool} ({event.failure}): {event.detail}",
            )
        if event.kind is VmEventKind.LOST:
            self._release([event.vm])  # it may still be billed
        if event.kind is not VmEventKind.LAUNCHED:
            self._must_decide = True
            self._candidates = ()

    def _note_refusal(self, vm: FleetVm, at_s: float) -> None:
        """Counts a VM that never came as refused: else more would be asked for, for ever."""
        refusal = VmEvent(at_s, VmEventKind.FAILED, vm.vm, vm.pool, LaunchFailure.CAPACITY)
        self._pools = self._pools.after(refusal, self._policy.pools)

    def _never_came(self, event: VmEvent) -> bool:
        ends = (VmEventKind.LOST, VmEventKind.PREEMPTED, VmEventKind.TERMINATED)
        return event.kind in ends

    def _watch_training(self) -> None:
        """Ends what cannot go on, and notes what ended."""
        training = self._training
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
            if training.saves and time.monotonic() - training.stop_s > self._rule.save_s:
                self._say("the workers do not stop; they are killed")
                self._end_training(saves=False, again=True)
        elif lost or failed:
            what = ", ".join(lost) if lost else f"workers of {failed[0].vm} (see {failed[0].log})"
            self._say(f"training breaks off: {what} gone")
            self._end_training(saves=False)
        elif self._is_silent(training):
            self._say("no step for too long; the workers are killed and started anew")
            self._end_training(saves=False)
        else:
            self._watch_pace(training)

    def _can_train(self, name: str) -> bool:
        vm = self._fleet.vms[name]
        return vm.phase in (Phase.READY, Phase.NOTICED)

    def _is_silent(self, training: _Training) -> bool:
        now_s = self._clock.now_s()
        factor = self._clock.factor
        began_s = now_s - (time.monotonic() - training.began_s) * factor
        if self._log.heard_at_s <= began_s or self._log.iteration <= training.from_iteration:
            return now_s - began_s > self._rule.start_s * factor
        overheads = self._planning.job.overheads
        allowed_s = self._rule.silence_s * factor
        if self._pace is not None:
            allowed_s = max(allowed_s, 10 * self._pace.iteration_s)
        every = overheads.evaluation_every
        if every is not None and self._log.iteration % every == 0:
            allowed_s += 2 * overheads.evaluation_s
        return now_s - self._log.heard_at_s > allowed_s

    def _watch_pace(self, training: _Training) -> None:
        now_s = self._clock.now_s()
        limits = self._planning.job.limits
        left = self._planning.job.iterations - self._log.iteration
        least = 0.0
        if limits.deadline_s is not None:
            least = left / max(limits.deadline_s - now_s, 1e-9)
        if limits.budget_usd is not None:
            money_usd = limits.budget_usd - self._spent_usd(now_s)
            per_s = self._usd_per_hour(training.config) / 3600
            least = max(least, left * per_s / max(money_usd, 1e-9))
        for at_s, iteration in self._log.made:
            point = Progress(at_s, iteration, min(self._log.durable, iteration))
            training.watch, self._pace = watch(training.watch, point, least, self._policy.pace)
        if training.watch.is_alarm(self._policy.pace) and not self._must_decide:
            self._must_decide = (
                training.watch.judged_at_s >= self._look_again_s - self._policy.look_s
            )
            self._candidates = ()

    def _note_end(self, training: _Training, log: str, *, is_whole: bool) -> None:
        """Notes that a world has ended, and what that means."""
        now_s = self._clock.now_s()
        total = self._planning.job.iterations
        # What is saved is made, whether or not the script came to its last line.
        is_finished = self._log.durable >= total or (is_whole and self._log.iteration >= total)
        step = training.step
        if step is None:
            step = self._ledger.begin("end-world", {"generation": training.world.generation}, now_s)
        ended = {"iteration": self._log.iteration, "is_finished": is_finished}
        self._ledger.done(step, now_s, ended)
        self._training = None
        self._pace = None
        self._must_decide = True
        self._candidates = ()
        if is_finished:
            self._outcome = self._finished
            return
        noticed = any(self._fleet.vms[vm].phase is not Phase.READY for vm in training.vms)
        if is_whole and not training.is_ending and not noticed:
            self._outcome = (
                Ending.UNFINISHED,
                f"The script ended by itself after {self._log.iteration:,} of {total:,} iterations;"
                " make `iterations` in the job file and the script's own steps agree.",
            )
            return
        at_risk = max(self._log.iteration - self._log.durable, 0)
        if at_risk and not is_whole:
            self._say(f"{at_risk} iterations since the last checkpoint are made again")
        self._log.iteration = min(self._log.iteration, self._log.durable)
        self._stalls = self._stalls + 1 if self._log.durable <= training.from_iteration else 0
        if training.is_ending and training.saves:
            self._stalls = 0
        if self._stalls >= self._rule.most_stalls:
            where = f" The last one's output is in {log}." if log else ""
            self._outcome = (
                Ending.UNFINISHED,
                f"No progress: {self._stalls} starts in a row ended before a checkpoint newer than "
                f"iteration {self._log.durable:,}.{where}",
            )

    @property
    def _finished(self) -> tuple[Ending, str]:
        return Ending.FINISHED, f"All {self._planning.job.iterations:,} iterations were made."

    def _watch_money(self) -> None:
        """Stops before the money is spent, whatever the policy's next look would say."""
        budget_usd = self._planning.job.limits.budget_usd
        if budget_usd is None:
            return
        now_s = self._clock.now_s()
        bill = self._ledger.bill(now_s)
        save_s = self._planning.job.overheads.checkpoint_s + 2 * self._rule.tick_s
        extra = self._extra_usd(now_s)
        if bill.usd + extra + bill.usd_per_hour * save_s / 3600 >= budget_usd:
            self._outcome = (
                Ending.MONEY,
                f"The money is spent: {bill.usd + extra:.2f} of {budget_usd:.2f} USD in total.",
            )

    # Decisions.

    def _decide(self, now_s: float) -> None:
        progress = self._progress(now_s)
        if not self._candidates:
            self._candidates = self._planning.candidates(progress, self._pools, self._fleet.held())
        situation = self._situation(now_s, progress)
        decision = decide(
            self._planning.job, self._candidates, situation, self._pools, self._policy
        )
        is_news = decision.kind is not DecisionKind.STAY or self._must_decide
        if is_news:
            self._ledger.note_decision(decision)
        self._must_decide = False
        self._look_again_s = max(decision.look_again_s, now_s + self._rule.tick_s)
        self._has_begun = True
        match decision.kind:
            case DecisionKind.STOP:
                self._outcome = (Ending.MONEY, "The money would not last until the next look.")
            case DecisionKind.WAIT:
                self._order_config(None, decision)
                if decision.cause is Cause.NO_PLAN and not self._can_ever_go_on():
                    self._outcome = (
                        Ending.UNFINISHED,
                        "No VMs are left that the job could run on.",
                    )
            case _:
                self._order_config(decision.config, decision)
                if decision.replace:
                    self._release(list(decision.replace))

    def _can_ever_go_on(self) -> bool:
        now_s = self._clock.now_s()
        offered = [Pool.of(offer) for offer in self._planning.offers]
        return any(
            self._pools.is_open(pool, now_s) or not self._pools.is_lost(pool) for pool in offered
        )

    def _order_config(self, config: ClusterConfig | None, decision: Decision) -> None:
        if config == self._target and config is not None:
            return
        if config is None and self._target is None:
            return
        now_s = self._clock.now_s()
        record = None if config is None else config_record(config)
        text = "nothing" if config is None else format_config(config)
        number = self._ledger.begin("order", {"config": record, "config_text": text}, now_s)
        self._ledger.done(number, now_s)
        self._target = config
        words = "wait" if config is None else f"rent {format_config(config)}"
        self._say(f"decided to {words}, because {decision.cause}")

    def _situation(self, now_s: float, progress: Progress) -> Situation:
        training = self._training
        if training is not None and training.is_ending:
            training = None
        running = None
        if training is not None and all(self._fleet.vms[vm].is_kept for vm in training.vms):
            running = self._planning.candidate(training.config)
        booting = self._fleet.by_pool(Phase.ASKED)
        launch_s = self._planning.job.overheads.launch_s
        boots_s = [
            vm.asked_s + launch_s - now_s for vm in self._fleet.kept() if vm.phase is Phase.ASKED
        ]
        reached = progress.durable_iteration if training is None else progress.iteration
        return Situation(
            now_s=now_s,
            iterations_left=max(self._planning.job.iterations - reached, 0.0),
            spent_usd=progress.spent_usd,
            at_risk=max(reached - progress.durable_iteration, 0.0),
            running=running,
            ordered=None if self._target is None else self._planning.candidate(self._target),
            ready=self._fleet.by_pool(Phase.READY),
            booting=booting,
            boot_left_s=max([*boots_s, 0.0]),
            pace=self._pace if running is not None else None,
            alarm=running is not None and training is not None
            and training.watch.is_alarm(self._policy.pace),
            has_begun=self._has_begun,
        )  # fmt: skip

    def _progress(self, now_s: float) -> Progress:
        iteration = max(self._log.iteration, 0)
        durable = min(self._log.durable, iteration) if self._training else self._log.durable
        return Progress(now_s, max(iteration, durable), durable, self._spent_usd(now_s))

    def _spent_usd(self, now_s: float) -> float:
        return self._ledger.bill(now_s).usd + self._extra_usd(now_s)

    def _extra_usd(self, now_s: float) -> float:
        return self._planning.job.extra_usd_per_hour * now_s / 3600

    def _usd_per_hour(self, config: ClusterConfig) -> float:
        return config.usd_per_hour + self._planning.job.extra_usd_per_hour

    # What is done.

    def _pursue(self) -> None:
        """Brings what there is nearer to what was decided on."""
        target, training = self._target, self._training
        if target is None:
            if training is not None and not training.is_ending:
                self._end_training(saves=True)
            elif training is None and self._fleet.held():
                self._release(self._fleet.surplus(None, ()))
            return
        self._ask_for_missing(target)
        members = self._fleet.members(target)
        if members is None or (training is not None and training.is_ending):
            return
        if training is None:
            self._start(target, members)
        elif training.config != target:
            self._say("all VMs are there: training saves and moves")
            self._end_training(saves=True)
        else:
            self._release(self._fleet.surplus(target, training.vms))

    def _ask_for_missing(self, target: ClusterConfig) -> None:
        now_s = self._clock.now_s()
        late = [
            vm.vm
            for vm in self._fleet.kept()
            if vm.phase is Phase.ASKED and now_s - vm.asked_s > self._rule.launch_s
        ]
        if late:
            self._say(f"{', '.join(late)}: never came; given up")
            for name in late:
                self._note_refusal(self._fleet.vms[name], now_s)
            self._release(late)
            self._must_decide = True
            self._candidates = ()
        missing = {
            pool: count
            for pool, count in self._fleet.missing(target).items()
            if self._pools.is_open(pool, now_s)
        }
        if not missing:
            return
        offers = {Pool.of(group.offer): group.offer for group in target.groups}
        number = len(self._fleet.vms)
        asked: list[tuple[FleetVm, AskedVm]] = []
        today = datetime.now(UTC).date().isoformat()
        for pool, count in missing.items():
            for _ in range(count):
                number += 1
                name = f"vm-{number}"
                gpus = offers[pool].instance_type.gpus
                asked.append(
                    (
                        FleetVm(name, pool, gpus, now_s),
                        AskedVm.of(name, offers[pool], at_s=now_s, rented_on=today),
                    )
                )
        prepared = self._backend.prepare(
            LaunchRequest(
                run_id=self._order.run_id,
                user=self._order.user,
                vms=tuple(
                    VmRequest(vm.vm, vm.pool, vm.gpus, paid.price.usd_per_hour)
                    for vm, paid in asked
                ),
                hard_end_s=self._order.hard_end_s,
                settings=self._order.settings,
            )
        )
        vms = [vm for vm, _ in asked]
        self._ledger.ask([paid for _, paid in asked], now_s)
        step = self._ledger.begin(
            "launch",
            {
                "document": dict(prepared.document),
                "vms": [
                    {**pool_record(vm.pool), "vm": vm.vm, "gpus": vm.gpus, "asked_s": vm.asked_s}
                    for vm in vms
                ],
            },
            now_s,
        )
        self._fleet = self._fleet.asking(vms)
        words = ", ".join(f"{count} x {pool}" for pool, count in missing.items())
        self._say(f"asks for {words}")
        self._backend.launch(prepared)
        self._ledger.done(step, self._clock.now_s())

    def _start(self, config: ClusterConfig, members: tuple[FleetVm, ...]) -> None:
        self._generation += 1
        world = world_of(
            self._generation,
            config,
            members,
            self._order.command,
            checkpoint=self._order.settings.checkpoint,
            paces_s=self._planning.paces_s(config) if self._order.plays_gpus else None,
        )
        now_s = self._clock.now_s()
        document = {
            **world_record(world),
            "config": config_record(config),
            "config_text": format_config(config),
            "from_iteration": self._log.durable,
        }
        step = self._ledger.begin("world", document, now_s)
        self._say(
            f"training starts on {format_config(config)} from iteration {self._log.durable:,}"
        )
        self._backend.start_workers(world)
        self._ledger.done(step, self._clock.now_s())
        self._training = _Training(world, config, time.monotonic(), self._log.durable)
        self._pace = None

    def _end_training(self, *, saves: bool, again: bool = False) -> None:
        training = self._training
        if training is None or (training.is_ending and not again):
            return
        if training.step is None:
            training.step = self._ledger.begin(
                "end-world",
                {"generation": training.world.generation, "saves": saves},
                self._clock.now_s(),
            )
        training.saves = saves
        training.stop_s = time.monotonic()
        self._backend.stop_workers(save=saves)

    def _release(self, names: list[str]) -> None:
        names = [name for name in names if not self._fleet.vms[name].is_released]
        if not names:
            return
        step = self._ledger.begin("release", {"vms": names}, self._clock.now_s())
        self._fleet = self._fleet.releasing(names)
        self._backend.terminate(names)
        self._ledger.done(step, self._clock.now_s())
        self._say(f"lets {', '.join(names)} go")

    def _close(self, outcome: tuple[Ending, str]) -> Outcome:
        """Saves where training is to be gone on with, releases everything, and notes the end."""
        ending, message = outcome
        if self._closing is None:
            self._closing = self._ledger.begin(
                "close", {"ending": ending.value, "message": message}, self._clock.now_s()
            )
        if self._training is not None and not self._training.is_ending:
            self._end_training(saves=ending in (Ending.STOPPED, Ending.MONEY))
        asked = self._is_asked_to_stop()
        began_s = time.monotonic()
        while self._training is not None and time.monotonic() - began_s < self._rule.save_s:
            self._hear()
            self._watch_training()
            if self._is_asked_to_stop() > max(asked, 1):
                break  # asked once more: do not wait
            if self._training is not None:
                time.sleep(min(self._rule.tick_s, 0.2))
        self._release(self._fleet.still_there())
        began_s = time.monotonic()
        while self._fleet.still_there() and time.monotonic() - began_s < self._rule.release_s:
            self._hear()
            time.sleep(min(self._rule.tick_s, 0.2))
        self._reconcile()
        now_s = self._clock.now_s()
        left = [state.vm for state in self._backend.reconcile() if state.is_billed]
        if left:
            message += f" STILL BILLED: {', '.join(left)}; run `srifty stop` again."
        if ending is Ending.FINISHED:
            self._log.durable = self._log.iteration = self._planning.job.iterations
        self._ledger.note_progress(self._progress(now_s))
        ended = Outcome(ending, message, now_s, self._spent_usd(now_s), self._log.iteration)
        self._close_forecasts(ended)
        self._ledger.done(self._closing, now_s)
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

    def _close_forecasts(self, outcome: Outcome) -> None:
        for forecast in self._ledger.forecasts():
            if forecast.ended_s is None:
                came = {
                    "ending": outcome.ending.value,
                    "time_s": outcome.at_s,
                    "cost_usd": outcome.usd,
                }
                self._ledger.close_forecast(forecast.number, came, outcome.at_s)

    # After a controller that was killed.

    def _restore(self) -> None:
        """Puts together what an earlier controller knew, and redoes its last step."""
        steps = self._ledger.steps()
        if not steps:
            return
        offers = self._planning.offers
        released: list[str] = []
        for step in steps:
            document = step.document
            match step.kind:
                case "order":
                    record = document["config"]
                    self._target = None if record is None else read_config(record, offers)
                    self._has_begun = True
                case "launch":
                    self._fleet = self._fleet.asking(
                        [
                            FleetVm(vm["vm"], read_pool(vm), vm["gpus"], vm["asked_s"])
                            for vm in document["vms"]
                        ]
                    )
                    if step.done_s is None:
                        self._backend.launch(Prepared(self._backend.name, document["document"]))
                        self._ledger.done(step.number, self._clock.now_s())
                case "world":
                    world = read_world(document)
                    self._generation = world.generation
                    config = read_config(document["config"], offers)
                    self._training = _Training(
                        world, config, time.monotonic(), document["from_iteration"]
                    )
                    if step.done_s is None:
                        self._redo_start(world)
                        self._ledger.done(step.number, self._clock.now_s())
                case "end-world":
                    if step.done_s is not None:
                        self._training = None
                        if step.outcome is not None and step.outcome["is_finished"]:
                            self._outcome = self._finished
                    elif self._training is not None:
                        self._training.step = step.number
                        self._training.saves = document.get("saves", False)
                        self._training.stop_s = time.monotonic()
                        self._backend.stop_workers(save=self._training.saves)
                case "release":
                    released += document["vms"]
                    self._backend.terminate(document["vms"])
                    if step.done_s is None:
                        self._ledger.done(step.number, self._clock.now_s())
                case "close":
                    self._outcome = (Ending(document["ending"]), document["message"])
                    self._closing = step.number
                case _:
                    pass
        self._replay_events(released)
        self._say("goes on with this run after its controller was gone")

    def _redo_start(self, world: World) -> None:
        there = {w.vm for w in self._backend.workers() if w.generation == world.generation}
        if there != {vm.vm for vm in world.vms}:
            self._backend.start_workers(world)

    def _replay_events(self, released: list[str]) -> None:
        for event in self._ledger.events():
            self._fleet = self._fleet.after(event)
            self._pools = self._pools.after(event, self._policy.pools)
        self._events = self._ledger.event_count()
        self._fleet = self._fleet.releasing(released)

    def _say(self, words: str, at_s: float | None = None) -> None:
        self._tell(f"{self._clock.now_s() if at_s is None else at_s:8.1f} s  {words}")
