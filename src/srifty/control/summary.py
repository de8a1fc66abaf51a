"""What a run's ledger says, as one JSON document: for status, watch, report."""

from __future__ import annotations

from typing import Any

from srifty.control.fleet import Fleet
from srifty.control.ledger import Ledger
from srifty.control.restoring import asked_in


def summary(ledger: Ledger, now_s: float, *, is_controlled: bool) -> dict[str, Any]:
    """Returns where a run stands.

    Args:
        ledger: of the run.
        now_s: seconds since the command.
        is_controlled: whether a controller is at work.
    """
    run = ledger.run()
    at_s = now_s if run.ended_s is None else run.ended_s
    bill = ledger.bill(at_s)
    progress = ledger.progress()
    last = progress[-1] if progress else None
    document = run.document
    extra_usd = float(document.get("extra_usd_per_hour", 0.0)) * at_s / 3600
    steps = ledger.steps()
    orders = [step.document["config_text"] for step in steps if step.kind == "order"]
    state = "running" if is_controlled else "without a controller"
    if run.outcome is not None:
        state = str(run.outcome["ending"])
    forecasts = ledger.forecasts()
    return {
        "run": run.run_id,
        "user": run.user,
        "backend": run.backend,
        "srifty": document.get("srifty"),
        "state": state,
        "message": run.outcome and run.outcome["message"],
        "at_s": at_s,
        "iterations": document.get("iterations"),
        "unit": document.get("unit", "iterations"),
        "iteration": last.iteration if last else 0,
        "durable_iteration": last.durable_iteration if last else 0,
        "iterations_per_s": _pace(ledger),
        "config": orders[-1] if orders else None,
        "deadline_s": document.get("deadline_s"),
        "cap_usd": document.get("cap_usd"),
        "spent_usd_total": bill.usd + extra_usd,
        "usd_per_hour": bill.usd_per_hour,
        "vms": _vms(ledger),
        "bill": [
            {"name": line.name, "billed_s": line.billed_s, "usd_total": line.usd}
            for line in (*bill.vms, *bill.disks)
        ],
        "events": [
            {
                "at_s": event.at_s,
                "kind": event.kind.value,
                "vm": event.vm,
                "pool": str(event.pool),
                "detail": event.detail,
            }
            for event in ledger.events()
        ],
        "decisions": [dict(decision) for decision in ledger.decisions()],
        "worlds": [
            {
                "at_s": step.begun_s,
                "config": step.document["config_text"],
                "from_iteration": step.document["from_iteration"],
            }
            for step in steps
            if step.kind == "world"
        ],
        "forecasts": [
            {"made_s": one.made_s, **one.document, "outcome": one.outcome} for one in forecasts
        ],
    }


def _vms(ledger: Ledger) -> list[dict[str, Any]]:
    fleet = Fleet()
    for step in ledger.steps():
        if step.kind == "launch":
            fleet = fleet.asking(asked_in(step))
    for event in ledger.events():
        fleet = fleet.after(event)
    return [
        {"vm": vm.vm, "pool": str(vm.pool), "phase": vm.phase.value} for vm in fleet.vms.values()
    ]


def _pace(ledger: Ledger) -> float | None:
    """Returns iterations per second over the last notes of progress; None where there are few."""
    points = ledger.progress()[-6:]
    if len(points) < 2 or points[-1].at_s <= points[0].at_s:
        return None
    made = points[-1].iteration - points[0].iteration
    return made / (points[-1].at_s - points[0].at_s) if made > 0 else None
