"""What a controller does to VMs and workers: written down before, done, written down again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from srifty.cloud.backend import Backend, LaunchRequest, VmRequest
from srifty.cloud.clock import Clock
from srifty.control.crew import config_record, pool_record, world_of, world_record
from srifty.control.fleet import FleetVm, Phase
from srifty.control.learned import Learned
from srifty.control.ledger import Ledger
from srifty.control.planning import Planning
from srifty.control.records import AskedVm
from srifty.control.run_order import RunOrder, RunRule
from srifty.control.run_state import RunState, Training
from srifty.control.situation import PolicyRule
from srifty.core.cluster import ClusterConfig
from srifty.core.events import Decision, LaunchFailure, Pool, VmEvent, VmEventKind
from srifty.core.notation import format_config


class Hands:
    """Acts for one run; each act is in the ledger before it is done, and again when it was.

    Args:
        state: of the run; follows what is done.
        planning: the job and what plans are made from.
        order: what is run.
        backend: where VMs come from.
        ledger: of the run.
        clock: of the run.
        policy: how pools are judged.
        rule: how the run is watched.
        tell: takes a line for people.
    """

    def __init__(
        self,
        state: RunState,
        planning: Planning,
        order: RunOrder,
        backend: Backend,
        ledger: Ledger,
        clock: Clock,
        *,
        policy: PolicyRule,
        rule: RunRule,
        tell: Callable[[str], None],
    ) -> None:
        self._state = state
        self._planning = planning
        self._order = order
        self._backend = backend
        self._ledger = ledger
        self._clock = clock
        self._policy = policy
        self._rule = rule
        self._tell = tell

    def say(self, words: str, at_s: float | None = None) -> None:
        """Tells people, with the time."""
        self._tell(f"{self._clock.now_s() if at_s is None else at_s:8.1f} s  {words}")

    def ask_for_missing(self, target: ClusterConfig, most: int | None = None) -> bool:
        """Asks for the VMs that a configuration lacks, as far as their pools are open.

        Returns whether there were any.

        Args:
            target: the configuration.
            most: VMs of each pool that are to be there at most; None: all of them.
        """
        now_s = self._clock.now_s()
        late = [
            vm.vm
            for vm in self._state.fleet.kept()
            if vm.phase is Phase.ASKED and now_s - vm.asked_s > self._rule.launch_s
        ]
        if late:
            self.say(f"{', '.join(late)}: never came; given up")
            for name in late:
                self.note_refusal(self._state.fleet.vms[name], now_s)
            self.release(late)
            self._state.must_decide = True
        held = self._state.fleet.held()
        missing = {
            pool: count if most is None else min(count, max(most - held.get(pool, 0), 0))
            for pool, count in self._state.fleet.missing(target).items()
            if self._state.pools.is_open(pool, now_s)
        }
        missing = {pool: count for pool, count in missing.items() if count}
        if not missing:
            return False
        offers = {Pool.of(group.offer): group.offer for group in target.groups}
        number = len(self._ledger.vms())
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
        self._state.fleet = self._state.fleet.asking(vms)
        words = ", ".join(f"{count} x {pool}" for pool, count in missing.items())
        self.say(f"asks for {words}")
        self._backend.launch(prepared)
        self._ledger.done(step, self._clock.now_s())
        return True

    def start(self, config: ClusterConfig, members: tuple[FleetVm, ...]) -> None:
        """Starts a world on VMs that run."""
        self._state.generation += 1
        world = world_of(
            self._state.generation,
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
            "from_iteration": self._state.log.durable,
        }
        step = self._ledger.begin("world", document, now_s)
        self.say(
            f"training starts on {format_config(config)} from iteration {self._state.log.durable:,}"
        )
        self._backend.start_workers(world)
        self._ledger.done(step, self._clock.now_s())
        self._state.training = Training(world, config, now_s, self._state.log.durable)
        self._state.pace = None

    def end_training(self, *, saves: bool, again: bool = False) -> None:
        """Has the world end: by saving and stopping, or at once; once, unless `again`."""
        training = self._state.training
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

    def release(self, vms: Sequence[str]) -> None:
        """Lets VMs go; those that were let go before are passed over."""
        names = [name for name in vms if not self._state.fleet.vms[name].is_released]
        if not names:
            return
        step = self._ledger.begin("release", {"vms": names}, self._clock.now_s())
        self._state.fleet = self._state.fleet.releasing(names)
        self._backend.terminate(names)
        self._ledger.done(step, self._clock.now_s())
        self.say(f"lets {', '.join(names)} go")

    def replace(self, vms: Sequence[str]) -> None:
        """Has VMs train on until others stand in for them."""
        names = [name for name in vms if not self._state.fleet.vms[name].is_unwanted]
        if not names:
            return
        now_s = self._clock.now_s()
        self._ledger.done(self._ledger.begin("replace", {"vms": names}, now_s), now_s)
        self._state.fleet = self._state.fleet.replacing(names)
        self.say(f"{', '.join(names)} is to be replaced; it trains on until then")

    def learn(self, learned: Learned) -> None:
        """Keeps what the run has shown, for the forecasts of other plans."""
        now_s = self._clock.now_s()
        document = {"network": learned.network, "compute": dict(learned.compute)}
        self._ledger.done(self._ledger.begin("learn", document, now_s), now_s)
        self._state.learned = learned

    def note_refusal(self, vm: FleetVm, at_s: float) -> None:
        """Counts a VM that never came as refused: else more would be asked for, for ever."""
        refusal = VmEvent(at_s, VmEventKind.FAILED, vm.vm, vm.pool, LaunchFailure.CAPACITY)
        self._state.pools = self._state.pools.after(refusal, self._policy.pools)

    def order_config(self, config: ClusterConfig | None, decision: Decision) -> None:
        """Notes what is to be rented from now on."""
        if config == self._state.target and config is not None:
            return
        if config is None and self._state.target is None:
            return
        now_s = self._clock.now_s()
        record = None if config is None else config_record(config)
        text = "nothing" if config is None else format_config(config)
        number = self._ledger.begin("order", {"config": record, "config_text": text}, now_s)
        self._ledger.done(number, now_s)
        self._state.target = config
        words = "wait" if config is None else f"rent {format_config(config)}"
        self.say(f"decided to {words}, because {decision.cause}")
