"""Measuring before planning: VMs are rented, measured on, and released, all errands at once.

Each errand has a back end of its own, since one back end runs one world at a time; all write to
one ledger. Nothing is resumed: VMs that hear of no controller end themselves, and what was measured
until then is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from srifty.cloud.backend import Backend, LaunchRequest, VmRequest, WorkersStatus, World, WorldVm
from srifty.cloud.clock import Clock
from srifty.cloud.errand import found_in
from srifty.control.crew import pool_record
from srifty.control.errands import Errand, Measure
from srifty.control.ledger import Ledger
from srifty.control.records import AskedVm
from srifty.control.run_order import Ending
from srifty.core.events import LaunchFailure, Pool, Progress, VmEvent, VmEventKind
from srifty.core.offers import Offer
from srifty.core.settings import RunSettings

_STOPS = (LaunchFailure.PERMISSION, LaunchFailure.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one measurement gave.

    Attributes:
        errand: of which errand.
        measure: what was measured.
        offer: on which VMs.
        text: the file that the command wrote.
    """

    errand: str
    measure: Measure
    offer: Offer
    text: str


@dataclass(frozen=True)
class MeasureOrder:
    """What is measured, and how.

    Attributes:
        run_id: the run's name.
        user: whose it is.
        errands: what to rent, and what for.
        command: returns the command of a measurement on an offer's VMs, as `srifty` takes it.
        suffix: of the file that a measurement writes.
        settings: how the VMs are set up.
        hard_end_s: seconds since the command at which all VMs end themselves.
        task_s: real seconds that one measurement may take.
        launch_s: seconds of the run after which a VM that never came counts as refused.
        cap_usd: dollars that may be spent; None: what the hard end allows.
    """

    run_id: str
    user: str
    errands: tuple[Errand, ...]
    command: Callable[[Measure, Offer], tuple[str, ...]]
    suffix: Mapping[Measure, str]
    settings: RunSettings
    hard_end_s: float
    task_s: float
    launch_s: float = 900.0
    cap_usd: float | None = None


class _Phase(StrEnum):
    WANTS_VMS = "wants VMs"
    BOOTS = "boots"
    MEASURES = "measures"
    RELEASES = "releases"
    OVER = "over"


@dataclass
class _Job:
    """An errand under way."""

    errand: Errand
    backend: Backend
    phase: _Phase = _Phase.WANTS_VMS
    left: list[Measure] = field(default_factory=list[Measure])
    untried: list[Offer] = field(default_factory=list[Offer])
    offer: Offer | None = None
    vms: list[str] = field(default_factory=list[str])
    ready: set[str] = field(default_factory=set[str])
    there: set[str] = field(default_factory=set[str])
    heard: int = 0
    after: dict[int, int] = field(default_factory=dict[int, int])
    asked_s: float = 0.0
    asked: int = 0
    generation: int = 0
    began_s: float = 0.0
    refused: str = ""
    failures: list[str] = field(default_factory=list[str])
    is_second_round: bool = False


class Measuring:
    """Runs all errands.

    Args:
        order: what is measured.
        backend_of: makes the back end of an errand, by its name.
        ledger: of the run, open for writing.
        clock: of the run.
        keep: takes each finding as it comes.
        tell: takes a line for people.
        is_asked_to_stop: asked at each look.
        tick_s: real seconds between two looks.
    """

    def __init__(
        self,
        order: MeasureOrder,
        backend_of: Callable[[str], Backend],
        ledger: Ledger,
        clock: Clock,
        *,
        keep: Callable[[Finding], None],
        tell: Callable[[str], None],
        is_asked_to_stop: Callable[[], int] = lambda: 0,
        tick_s: float = 0.2,
    ) -> None:
        self._order = order
        self._ledger = ledger
        self._clock = clock
        self._keep = keep
        self._tell = tell
        self._is_asked_to_stop = is_asked_to_stop
        self._tick_s = tick_s
        self._found = 0
        self._refusal: str | None = None
        self._jobs = [
            _Job(each, backend_of(each.name), left=list(each.measures), untried=list(each.offers))
            for each in order.errands
        ]

    def run(self) -> tuple[Ending, str]:
        """Measures everything; returns how it ended. Nothing is left that costs money."""
        why: tuple[Ending, str] | None = None
        while why is None and any(job.phase is not _Phase.OVER for job in self._jobs):
            for job in self._jobs:
                self._look(job)
            why = self._why_end()
            time.sleep(self._tick_s)
        for job in self._jobs:
            self._release(job)
        began_s = time.monotonic()
        while any(job.there for job in self._jobs) and time.monotonic() - began_s < 30.0:
            for job in self._jobs:
                self._hear(job)
            time.sleep(self._tick_s)
        return self._end(why)

    def _why_end(self) -> tuple[Ending, str] | None:
        now_s = self._clock.now_s()
        if self._is_asked_to_stop():
            return Ending.STOPPED, "Stopped as asked."
        if self._refusal is not None:
            return Ending.REFUSED, self._refusal
        cap_usd = self._order.cap_usd
        bill = self._ledger.bill(now_s)
        # What is spent until VMs have ended counts, too.
        soon_usd = bill.usd_per_hour * (self._tick_s + 2.0) * self._clock.factor / 3600
        if cap_usd is not None and bill.usd + soon_usd >= cap_usd:
            return Ending.MONEY, "The money is spent."
        if now_s >= self._order.hard_end_s:
            return Ending.UNFINISHED, "The hard end has come: all VMs end then."
        return None

    def _end(self, why: tuple[Ending, str] | None) -> tuple[Ending, str]:
        failed = [
            f"{job.errand.name}: {words}"
            for job in self._jobs
            for words in (*job.failures, job.refused)
            if words
        ]
        if why is None and failed:
            why = Ending.UNFINISHED, "; ".join(failed)
        ending, message = why or (Ending.FINISHED, "All was measured.")
        billed = [s.vm for job in self._jobs for s in job.backend.reconcile() if s.is_billed]
        if billed:
            message += f" STILL BILLED: {', '.join(billed)}; run `srifty stop` again."
        now_s = self._clock.now_s()
        for job in self._jobs:
            self._ledger.note_states(job.backend.reconcile())
        outcome = {
            "ending": ending.value,
            "message": message,
            "usd": self._ledger.bill(now_s).usd,
            "iteration": self._found,
            "still_billed": billed,
        }
        self._ledger.end(outcome, now_s)
        return ending, message

    def _look(self, job: _Job) -> None:
        self._hear(job)
        match job.phase:
            case _Phase.WANTS_VMS:
                self._ask(job)
            case _Phase.BOOTS:
                self._see_boot(job)
            case _Phase.MEASURES:
                self._see(job)
            case _Phase.RELEASES if not job.there:
                job.phase = _Phase.OVER
            case _:
                pass

    def _hear(self, job: _Job) -> None:
        events = job.backend.events(job.heard)
        job.heard += len(events)
        self._ledger.note_events(self._ledger.event_count(), events)
        for event in events:
            self._meet(job, event)
        if events:
            self._ledger.note_states(job.backend.reconcile())
        for worker in job.backend.progress(job.after):
            job.after[worker.rank] = worker.after
            for line in worker.lines:
                found = found_in(line)
                if found is not None:
                    self._take(job, *found)

    def _meet(self, job: _Job, event: VmEvent) -> None:
        is_released = job.phase in (_Phase.RELEASES, _Phase.OVER)
        words = f": {event.detail}" if event.detail else ""
        if not is_released:
            self._say(f"{event.vm}, {event.pool}: {event.kind}{words}")
        match event.kind:
            case VmEventKind.LAUNCHED:
                job.ready.add(event.vm)
            case VmEventKind.NOTICE | VmEventKind.RECOVERED:
                pass
            case VmEventKind.LOST:
                job.backend.terminate([event.vm])  # it may still be billed
            case _:
                job.there.discard(event.vm)
        if event.failure in _STOPS:
            self._refusal = f"The cloud refused {event.pool} ({event.failure}): {event.detail}"
        ends = (VmEventKind.FAILED, VmEventKind.PREEMPTED, VmEventKind.LOST, VmEventKind.TERMINATED)
        if event.kind in ends and event.vm in job.vms and not is_released:
            self._try_elsewhere(job, f"{event.pool} {event.kind}{words}")

    def _ask(self, job: _Job) -> None:
        if job.there:
            return  # of an offer that was given up; quotas may be shared
        if not job.untried:
            if any(other.there for other in self._jobs):
                return
            if len(self._jobs) == 1 or job.is_second_round:
                job.phase = _Phase.OVER
                return
            # Quotas are shared: what the others have released may be enough.
            job.is_second_round = True
            job.untried = list(job.errand.offers)
        offer = job.offer = job.untried.pop(0)
        now_s = self._clock.now_s()
        job.asked_s, job.ready = now_s, set()
        job.vms = [f"{job.errand.name}-{job.asked + n}" for n in range(1, job.errand.vms + 1)]
        job.asked += job.errand.vms
        prepared = job.backend.prepare(launch_request(self._order, offer, job.vms))
        today = datetime.now(UTC).date().isoformat()
        self._ledger.ask(
            [AskedVm.of(vm, offer, at_s=now_s, rented_on=today) for vm in job.vms], now_s
        )
        vms = [
            {
                **pool_record(Pool.of(offer)),
                "vm": vm,
                "gpus": offer.instance_type.gpus,
                "asked_s": now_s,
            }
            for vm in job.vms
        ]
        document = {"document": dict(prepared.document), "vms": vms}
        step = self._ledger.begin("launch", document, now_s)
        self._say(f"asks for {job.errand.vms} x {Pool.of(offer)}")
        job.there = set(job.vms)
        job.phase = _Phase.BOOTS
        job.backend.launch(prepared)
        self._ledger.done(step, self._clock.now_s())

    def _see_boot(self, job: _Job) -> None:
        if job.ready >= set(job.vms):
            self._start(job)
        elif self._clock.now_s() - job.asked_s > self._order.launch_s:
            self._try_elsewhere(job, "its VMs never came")

    def _try_elsewhere(self, job: _Job, why: str) -> None:
        """Gives an offer up, after which the next one is asked for."""
        job.refused = why
        job.backend.terminate(sorted(job.there))
        job.vms = []
        job.phase = _Phase.WANTS_VMS

    def _start(self, job: _Job) -> None:
        """Starts the next measurement; without any left, the VMs are released."""
        offer = job.offer
        if not job.left or offer is None:
            self._release(job)
            return
        job.refused = ""
        measure = job.left[0]
        count = job.errand.vms if measure is Measure.BETWEEN else 1
        workers = 1 if measure is Measure.PROFILE else offer.instance_type.gpus
        job.generation += 1
        world = World(
            job.generation,
            tuple(WorldVm(vm, workers) for vm in job.vms[:count]),
            (
                *("-m", "srifty.cloud.errand", f"{job.generation}", self._order.suffix[measure]),
                *self._order.command(measure, offer),
            ),
            ",".join("1" for _ in range(count * workers)),
        )
        self._say(f"{job.errand.name}: measures {measure} on {', '.join(job.vms[:count])}")
        job.began_s = time.monotonic()
        job.phase = _Phase.MEASURES
        job.backend.start_workers(world)

    def _see(self, job: _Job) -> None:
        workers = [w for w in job.backend.workers() if w.generation == job.generation]
        is_late = time.monotonic() - job.began_s > self._order.task_s
        failed = [w for w in workers if w.exit_code]
        if is_late or failed:
            job.backend.stop_workers(save=False)
            what = "did not end in time" if is_late else f"failed (see {failed[0].log})"
            job.failures.append(f"{job.left[0]} {what}")
            self._say(f"{job.errand.name}: {job.failures[-1]}")
            job.left.pop(0)
            self._start(job)
        elif workers and all(w.status is WorkersStatus.ENDED for w in workers):
            self._hear(job)  # the last line may have come in between
            if job.phase is _Phase.MEASURES:
                job.left.pop(0)
                self._start(job)

    def _take(self, job: _Job, name: str, text: str) -> None:
        if name != str(job.generation) or job.offer is None or not job.left:
            return
        self._keep(Finding(job.errand.name, job.left[0], job.offer, text))
        self._found += 1
        now_s = self._clock.now_s()
        spent_usd = self._ledger.bill(now_s).usd
        self._ledger.note_progress(Progress(now_s, self._found, self._found, spent_usd))

    def _release(self, job: _Job) -> None:
        if job.phase in (_Phase.RELEASES, _Phase.OVER):
            return
        job.phase = _Phase.RELEASES
        if job.there:
            self._say(f"lets {', '.join(sorted(job.there))} go")
            job.backend.terminate(sorted(job.there))

    def _say(self, words: str) -> None:
        self._tell(f"{self._clock.now_s():8.1f} s  {words}")


def launch_request(order: MeasureOrder, offer: Offer, vms: Sequence[str]) -> LaunchRequest:
    """Returns the request for an errand's VMs."""
    return LaunchRequest(
        run_id=order.run_id,
        user=order.user,
        vms=tuple(
            VmRequest(vm, Pool.of(offer), offer.instance_type.gpus, offer.usd_per_hour)
            for vm in vms
        ),
        hard_end_s=order.hard_end_s,
        settings=order.settings,
    )
