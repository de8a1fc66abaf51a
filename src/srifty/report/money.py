"""Where a plan's money goes: by what the VMs do while they are paid for, and by VM group.

    bill = Σ (part of an iteration · N · price per hour) + traffic + the rest

where the price includes `extra_usd_per_hour`, and the rest is set-up, evaluations, checkpoints,
lost VMs, and billing minima.
"""

from __future__ import annotations

from srifty.files.plan_document import PlanDocument, PlanPart
from srifty.report.layout import Bar, bar_list, both
from srifty.report.quantities import dollars, hourly, share
from srifty.report.table import Figure, Row, Table, columns

_S_PER_HOUR = 3600.0
# Beneath it, a part is a trace of rounding and not worth a line.
_LEAST_SHARE = 1e-4


def money_figure(document: PlanDocument) -> Figure | None:
    """Returns the drawing of a plan's expected bill; None where its parts are not known."""
    plan = document.plan or document.nearest
    if plan is None or plan.cost_usd.mean is None or document.request is None:
        return None
    parts = bill_parts(document, plan)
    total = plan.cost_usd.mean
    if not total > 0:
        return None
    bars = [
        Bar(name, max(usd, 0.0), f"{dollars(usd).text} ({share(usd / total).text})", tone)
        for name, usd, tone in parts
    ]
    wide, narrow = both(bar_list(bars, "Where the money goes"))
    rows = tuple(Row((name, dollars(usd), share(usd / total))) for name, usd, _ in parts)
    name = "plan" if document.plan else "nearest"
    sum_row = Row(("all", dollars(total, f"{name}.cost_usd.mean"), share(1.0)))
    table = Table(
        "Where the money goes", columns("while VMs", "#cost in total", "#share"), rows, sum_row
    )
    caption = f"The expected bill of {dollars(total).text} by what the VMs do while it runs up."
    return Figure("money", caption, wide, narrow, (), table)


def bill_parts(document: PlanDocument, plan: PlanPart) -> list[tuple[str, float, str]]:
    """Returns (what the VMs do, dollars, tone); they sum to the expected bill.

    Args:
        document: says the iterations and what else an hour costs.
        plan: whose expected cost is known.
    """
    request = document.request
    total = plan.cost_usd.mean
    if request is None or total is None:
        return []
    usd_per_s = (plan.usd_per_hour + request.extra_usd_per_hour) / _S_PER_HOUR
    parts = plan.parts
    computed_s = parts.forward_s + parts.backward_s + parts.exposed_exchange_s + parts.optimizer_s
    waiting_s = max((plan.iteration_s.mean or 0.0) - computed_s, 0.0)
    per_iteration = (
        ("compute: forward", parts.forward_s, "first"),
        ("compute: backward", parts.backward_s, "third"),
        ("exchange that nothing hides", parts.exposed_exchange_s, "second"),
        ("optimizer step", parts.optimizer_s, "fourth"),
        ("waiting for input", waiting_s, "bad"),
    )
    named = [(name, s * request.iterations * usd_per_s, tone) for name, s, tone in per_iteration]
    named.append(("traffic between zones", plan.traffic_usd, "fourth"))
    rest = total - sum(usd for _, usd, _ in named)
    named.append(("set-up, evaluation, saving, losses", rest, "soft"))
    return [part for part in named if abs(part[1]) >= _LEAST_SHARE * total]


def group_table(document: PlanDocument) -> Table | None:
    """Returns what is to be rented, group by group; None where there is nothing."""
    plan = document.plan or document.nearest
    if plan is None:
        return None
    name = "plan" if document.plan else "nearest"
    rows: list[Row] = []
    for index, group in enumerate(plan.groups):
        source = f"{name}.groups.{index}"
        place = group.location.zone or group.location.region
        largest, smallest = max(group.local_batch), min(group.local_batch)
        batch = f"{largest:,}" if largest == smallest else f"{largest:,} or {smallest:,}"
        passes = f", {group.accumulation} passes" if group.accumulation > 1 else ""
        idle = group.gpus - group.gpus_used
        gpus = f"{group.gpus_used} × {group.gpu}" + (f" ({idle} idle)" if idle > 0 else "")
        rows.append(
            Row(
                (
                    f"{group.count} × {group.instance_type}",
                    group.market,
                    place,
                    gpus,
                    f"{batch}{passes}",
                    hourly(group.usd_per_hour_each, f"{source}.usd_per_hour_each"),
                    hourly(group.count * group.usd_per_hour_each),
                )
            )
        )
    total = Row(
        (
            "all",
            "",
            "",
            f"{plan.world_size:,} GPUs",
            f"{plan.samples:,} in all",
            "",
            hourly(plan.usd_per_hour, f"{name}.usd_per_hour"),
        )
    )
    head = columns("VMs", "market", "zone", "GPUs each", "batch per GPU", "#price each", "#price")
    return Table("What to rent", head, tuple(rows), total)
