"""The ledger of a run: what was begun and done, what happened, what it costs, what was forecast.

One file for each run, written by its controller alone, readable by all while it is. Whatever is
written is there once the call returns, and a controller that is killed at any point leaves whole
entries only: what was begun and not done is what `unfinished` tells the one that resumes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from srifty.catalog.billing import DiskUsage, VmUsage
from srifty.cloud.backend import VmState
from srifty.cloud.locks import holder, take_lock
from srifty.control._ledger_tables import LEDGER
from srifty.control.bill import Bill, PaidPrice, RentedDisk, RentedVm, bill_of
from srifty.control.records import (
    AskedVm,
    ForecastRecord,
    RunRecord,
    StepRecord,
    decision_document,
)
from srifty.core.events import Decision, LaunchFailure, Pool, Progress, VmEvent, VmEventKind
from srifty.core.offers import Location, Market
from srifty.database import transaction
from srifty.errors import InputError


class Ledger:
    """The ledger of one run; see `create`, `open` and `read`.

    Args:
        path: the file.
        create: whether to make it where there is none.
        writes: whether this process is the run's controller.

    Raises:
        InputError: there is no such file, it is no ledger, or the run has a controller already.
    """

    def __init__(self, path: Path, *, create: bool, writes: bool) -> None:
        self.path = path
        self._lock: int | None = None
        if writes:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.with_name(f"{path.name}.lock")
            self._lock = take_lock(lock)
            if self._lock is None:
                raise InputError(
                    f"this run has a controller, process {holder(lock)}; end that one first",
                    str(path),
                )
        try:
            self._connection = LEDGER.connect(path, create=create)
            if not writes:
                self._connection.execute("PRAGMA query_only = ON")
        except BaseException:
            self._unlock()
            raise

    @classmethod
    def create(cls, path: Path, run: RunRecord) -> Ledger:
        """Returns a new ledger, open for writing.

        Raises:
            InputError: there is a run in the file already; the rest as the class says.
        """
        is_new = not path.exists()
        ledger = cls(path, create=True, writes=True)
        try:
            with ledger._writing():
                if ledger._rows("SELECT 1 FROM run"):
                    raise InputError("holds a run already; resume it, or name another", str(path))
                ledger._connection.execute(
                    "INSERT INTO run VALUES (1, ?, ?, ?, ?, ?, ?, NULL, NULL)",
                    (
                        run.run_id,
                        run.user,
                        run.backend,
                        run.began_unix_s,
                        run.clock_factor,
                        json.dumps(dict(run.document)),
                    ),
                )
        except BaseException:
            ledger.close()
            if is_new:  # else the name would be taken by a run that never was
                path.unlink(missing_ok=True)
            raise
        return ledger

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """Returns the ledger of a run that this process controls from now on."""
        return cls(path, create=False, writes=True)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Returns a ledger to look into, whoever writes it."""
        return cls(path, create=False, writes=False)

    def close(self) -> None:
        """Closes the file, and lets another process control the run."""
        self._connection.close()
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # The run and the controller's steps.

    def run(self) -> RunRecord:
        """Returns what the run is.

        Raises:
            InputError: its controller was killed before it had said so.
        """
        rows = self._rows(
            "SELECT run_id, user, backend, began_unix_s, clock_factor, document, ended_s, outcome "
            "FROM run"
        )
        if not rows:
            raise InputError("holds no run: it was given up before it began", str(self.path))
        run_id, user, backend, began_unix_s, clock_factor, document, ended_s, outcome = rows[0]
        return RunRecord(
            run_id,
            user,
            backend,
            began_unix_s,
            clock_factor,
            json.loads(document),
            ended_s,
            _loaded(outcome),
        )

    def end(self, outcome: Mapping[str, Any], at_s: float) -> None:
        """Notes that the run ended."""
        self._write("UPDATE run SET ended_s = ?, outcome = ?", at_s, json.dumps(dict(outcome)))

    def begin(self, kind: str, document: Mapping[str, Any], at_s: float) -> int:
        """Notes that a step is about to be done; returns its number."""
        return self._write(
            "INSERT INTO steps (kind, document, begun_s) VALUES (?, ?, ?)",
            *(kind, json.dumps(dict(document)), at_s),
        )

    def done(self, number: int, at_s: float, outcome: Mapping[str, Any] | None = None) -> None:
        """Notes that a step was done."""
        self._write(
            "UPDATE steps SET done_s = ?, outcome = ? WHERE number = ?",
            *(at_s, None if outcome is None else json.dumps(dict(outcome)), number),
        )

    def steps(self) -> list[StepRecord]:
        """Returns all steps, in order."""
        rows = self._rows(
            "SELECT number, kind, document, begun_s, done_s, outcome FROM steps ORDER BY number"
        )
        return [
            StepRecord(number, kind, json.loads(document), begun_s, done_s, _loaded(outcome))
            for number, kind, document, begun_s, done_s, outcome in rows
        ]

    def unfinished(self) -> list[StepRecord]:
        """Returns the steps that were begun and of which nobody knows whether they were done."""
        return [step for step in self.steps() if step.done_s is None]

    # VMs, their events, their bill.

    def ask(self, vms: Sequence[AskedVm], at_s: float) -> None:
        """Notes VMs that are about to be asked for, at the agreed prices; known ones stay."""
        with self._writing():
            known = {vm for (vm,) in self._rows("SELECT vm FROM vms")}
            for vm in vms:
                if vm.vm in known:
                    continue
                pool = vm.pool
                self._connection.execute(
                    "INSERT INTO vms (vm, instance_type, region, zone, market, gpus, provider, "
                    "rented_on, asked_s, taken_back) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
                    (
                        *(vm.vm, pool.instance_type, pool.location.region, pool.location.zone),
                        *(pool.market.value, vm.gpus, vm.provider, vm.rented_on, at_s),
                    ),
                )
                self._add_price(vm.vm, vm.price)

    def note_price(self, vm: str, price: PaidPrice) -> None:
        """Notes that a VM costs something else from a time on."""
        with self._writing():
            self._add_price(vm, price)

    def note_events(self, after: int, events: Sequence[VmEvent]) -> None:
        """Notes what the back end said happened.

        Args:
            after: how many events came before them, as the back end counts.
            events: in the back end's order; those that are known already are passed over.

        Raises:
            InputError: some in between are missing.
        """
        with self._writing():
            known = self.event_count()
            if after > known:
                raise InputError(
                    f"event {after} cannot be noted after {known} events", str(self.path)
                )
            for number, event in enumerate(events[known - after :], known):
                self._connection.execute(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        *(number, event.at_s, event.kind.value, event.vm),
                        *(event.failure and event.failure.value, event.detail),
                    ),
                )
                self._apply(event)

    def note_states(self, states: Sequence[VmState]) -> None:
        """Notes what the VMs really did, which counts more than what was heard of them."""
        with self._writing():
            for state in states:
                self._connection.execute(
                    "UPDATE vms SET running_s = ?, stopped_s = ?, taken_back = ? WHERE vm = ?",
                    (state.running_s, state.stopped_s, state.taken_back, state.vm),
                )

    def add_disk(self, disk: DiskUsage, *, provider: str, made_on: str) -> None:
        """Notes that a disk was made."""
        self._write(
            "INSERT INTO disks VALUES (?, ?, ?, ?, ?, ?)",
            *(disk.name, disk.gigabytes, provider, made_on, disk.created_s, disk.deleted_s),
        )

    def delete_disk(self, name: str, at_s: float) -> None:
        """Notes that a disk was deleted."""
        self._write("UPDATE disks SET deleted_s = ? WHERE name = ?", at_s, name)

    def event_count(self) -> int:
        """Returns how many events were noted; the next is asked for by it."""
        return self._rows("SELECT count(*) FROM events")[0][0]

    def events(self) -> list[VmEvent]:
        """Returns all events, in order."""
        rows = self._rows(
            "SELECT at_s, kind, vm, instance_type, region, zone, market, failure, detail "
            "FROM events JOIN vms USING (vm) ORDER BY events.number"
        )
        return [
            VmEvent(
                at_s,
                VmEventKind(kind),
                vm,
                Pool(instance_type, Location(region, zone), Market(market)),
                None if failure is None else LaunchFailure(failure),
                detail,
            )
            for at_s, kind, vm, instance_type, region, zone, market, failure, detail in rows
        ]

    def vms(self) -> list[RentedVm]:
        """Returns all VMs that were asked for, in that order."""
        prices: dict[str, list[PaidPrice]] = {}
        for vm, *price in self._rows(
            "SELECT vm, since_s, usd_per_hour, source FROM prices ORDER BY since_s, number"
        ):
            prices.setdefault(vm, []).append(PaidPrice(*price))
        rows = self._rows(
            "SELECT vm, market, running_s, stopped_s, taken_back, provider, rented_on FROM vms "
            "ORDER BY number"
        )
        return [
            RentedVm(
                VmUsage(
                    vm,
                    Market(market),
                    prices[vm][0].usd_per_hour,
                    running_s,
                    stopped_s,
                    bool(taken_back),
                ),
                provider,
                rented_on,
                tuple(prices[vm]),
            )
            for vm, market, running_s, stopped_s, taken_back, provider, rented_on in rows
        ]

    def bill(self, now_s: float) -> Bill:
        """Returns what the run has cost up to a time."""
        disks = [
            RentedDisk(DiskUsage(*usage), provider, made_on)
            for provider, made_on, *usage in self._rows(
                "SELECT provider, made_on, name, gigabytes, created_s, deleted_s FROM disks "
                "ORDER BY created_s, name"
            )
        ]
        return bill_of(self.vms(), disks, now_s)

    # Progress, decisions, forecasts.

    def note_progress(self, progress: Progress) -> None:
        """Notes how far the run is."""
        self._write(
            "INSERT INTO progress (at_s, iteration, durable_iteration, spent_usd, paused_s) "
            "VALUES (?, ?, ?, ?, ?)",
            *(progress.at_s, progress.iteration, progress.durable_iteration),
            *(progress.spent_usd, progress.paused_s),
        )

    def progress(self) -> list[Progress]:
        """Returns how far the run was, in order."""
        rows = self._rows(
            "SELECT at_s, iteration, durable_iteration, spent_usd, paused_s FROM progress "
            "ORDER BY number"
        )
        return [Progress(*row) for row in rows]

    def note_decision(self, decision: Decision) -> None:
        """Notes a decision and its figures."""
        self._write(
            "INSERT INTO decisions (at_s, document) VALUES (?, ?)",
            *(decision.at_s, json.dumps(decision_document(decision))),
        )

    def decisions(self) -> list[Mapping[str, Any]]:
        """Returns all decisions, in order, as JSON values."""
        rows = self._rows("SELECT document FROM decisions ORDER BY number")
        return [json.loads(document) for (document,) in rows]

    def note_forecast(self, document: Mapping[str, Any], at_s: float) -> int:
        """Notes a forecast; returns its number."""
        return self._write(
            "INSERT INTO forecasts (made_s, document) VALUES (?, ?)",
            *(at_s, json.dumps(dict(document))),
        )

    def close_forecast(self, number: int, outcome: Mapping[str, Any], at_s: float) -> None:
        """Notes what came of a forecast."""
        self._write(
            "UPDATE forecasts SET ended_s = ?, outcome = ? WHERE number = ?",
            *(at_s, json.dumps(dict(outcome)), number),
        )

    def forecasts(self) -> list[ForecastRecord]:
        """Returns all forecasts, in order."""
        rows = self._rows(
            "SELECT number, made_s, document, ended_s, outcome FROM forecasts ORDER BY number"
        )
        return [
            ForecastRecord(number, made_s, json.loads(document), ended_s, _loaded(outcome))
            for number, made_s, document, ended_s, outcome in rows
        ]

    def _apply(self, event: VmEvent) -> None:
        """Has a VM's usage follow an event; `note_states` has the last word."""
        if event.kind is VmEventKind.LAUNCHED:
            self._connection.execute(
                "UPDATE vms SET running_s = coalesce(running_s, ?) WHERE vm = ?",
                (event.at_s, event.vm),
            )
        elif event.kind in (VmEventKind.PREEMPTED, VmEventKind.TERMINATED):
            self._connection.execute(
                "UPDATE vms SET stopped_s = coalesce(stopped_s, ?), taken_back = ? WHERE vm = ?",
                (event.at_s, event.kind is VmEventKind.PREEMPTED, event.vm),
            )

    def _add_price(self, vm: str, price: PaidPrice) -> None:
        self._connection.execute(
            "INSERT INTO prices (vm, since_s, usd_per_hour, source) VALUES (?, ?, ?, ?)",
            (vm, price.since_s, price.usd_per_hour, price.source),
        )

    def _write(self, statement: str, *values: object) -> int:
        with self._writing():
            return self._connection.execute(statement, values).lastrowid or 0

    @contextmanager
    def _writing(self) -> Generator[None]:
        with LEDGER.explained(self.path), transaction(self._connection, writing=True):
            yield

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with LEDGER.explained(self.path):
            return self._connection.execute(query).fetchall()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _loaded(text: str | None) -> Mapping[str, Any] | None:
    return None if text is None else cast("Mapping[str, Any]", json.loads(text))
