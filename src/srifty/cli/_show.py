"""Plans and forecasts as people read them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.forecast import Interruptions, JobForecast
from srifty.core.job import Job
from srifty.core.notation import format_config
from srifty.core.plan import Plan, PlanResult, Reason, ReasonKind
from srifty.units import format_duration, format_odds, format_usd

# Without a terminal, tables are as wide as they need: no configuration is cut short.
_PIPE_WIDTH = 1000


def console_for_results() -> Console:
    """Returns the console for standard output; plain text into pipes and under NO_COLOR."""
    plain = bool(os.environ.get("NO_COLOR"))  # rich alone would keep bold and dim
    console = Console(highlight=False, soft_wrap=True, color_system=None if plain else "auto")
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def describe_group(group: VmGroup) -> str:
    """Returns a VM group in words: `8 x g3.8xlarge (spot, us-east-1), 32 per GPU x 2 GPUs`."""
    offer = group.offer
    local = sorted(set(group.local_batches), reverse=True)
    per_gpu = " or ".join(str(batch) for batch in local)
    plural = "s" if group.gpus_used > 1 else ""
    gpus = f" x {group.gpus_used} GPU{plural}" if offer.instance_type.gpus > 1 else ""
    idle = offer.instance_type.gpus - group.gpus_used
    idle_words = f" ({idle} idle)" if idle else ""
    passes = f", {group.accumulation} passes" if group.accumulation > 1 else ""
    return (
        f"{group.count} x {offer.instance_type.name} ({offer.market}, {offer.location}), "
        f"{per_gpu} per GPU{gpus}{idle_words}{passes}"
    )


def show_result(console: Console, job: Job, result: PlanResult) -> None:
    """Prints the planner's answer: the plan, why, the alternatives, and what it rests on."""
    if result.plan is not None:
        _show_plan(console, job, result.plan, f"{job.name}: rent")
        _show_front(console, result)
        _bullets(console, "A little more", [m.message for m in result.marginals])
    else:
        console.print(Text(f"{job.name}: no plan. {result.verdict.value}", style="bold red"))
        helpful = (
            ReasonKind.DEADLINE,
            ReasonKind.BUDGET,
            ReasonKind.CONFIDENCE,
            ReasonKind.QUOTA,
            ReasonKind.RESERVATION,
        )
        remedies = [
            reason
            for reason in result.reasons
            if (reason.nearest is not None and reason.kind in helpful)
            or (reason.kind is ReasonKind.BATCH and result.nearest is not None)
        ]
        causes = [reason for reason in result.reasons if reason not in remedies]
        _bullets(console, "Why", _distinct(causes))
        _bullets(console, "What would work", _distinct(remedies))
        if result.nearest is not None:
            console.print()
            _show_plan(console, job, result.nearest, "The nearest plan:")
    _bullets(console, "Warnings", result.warnings, style="yellow")
    _bullets(console, "Assumed", result.assumptions, style="dim")
    console.print()
    console.print(Text(_search_line(result), style="dim"))


def _distinct(reasons: Sequence[Reason]) -> list[str]:
    """Returns the messages, each once: two limits that must move together share one."""
    return list(dict.fromkeys(reason.message for reason in reasons))


def _search_line(result: PlanResult) -> str:
    remainder = (
        f" and {result.considered_remainder:,} with a remainder"
        if result.considered_remainder
        else ""
    )
    if result.plan is None:
        proof = "none of them meets the limits" if result.considered else "none exists"
    elif result.proved_optimal:
        proof = "proved to be the best of this space"
    elif result.gap is not None:
        proof = f"no plan of this space is better by more than {result.gap:.1%}"
    else:
        proof = "not all there are; see what was assumed"
    return (
        f"{result.considered:,} configurations{remainder} considered in {result.seconds:.2f} s "
        f"({result.method}): {proof}."
    )


def _show_plan(console: Console, job: Job, plan: Plan, lead: str) -> None:
    forecast = plan.forecast
    console.print(Text(lead, style="bold"))
    show_groups(console, plan.config)
    console.print(Text(promise(job, plan.config, forecast), style="bold"))
    show_forecast(console, plan.config, forecast)


def show_groups(console: Console, config: ClusterConfig) -> None:
    """Prints the VM groups in words, and the short notation."""
    for group in config.groups:
        price = f", {format_usd(group.offer.usd_per_hour)} an hour each"
        console.print(Text(f"  {describe_group(group)}{price}", style="bold green"))
    console.print(
        Text(f"  {format_config(config)}   {format_usd(config.usd_per_hour)} an hour", style="dim")
    )


def promise(job: Job, config: ClusterConfig, forecast: JobForecast) -> str:
    """Returns a forecast in one line: how long, how much, how sure."""
    time_s, cost = forecast.time_s, forecast.cost_usd
    line = f"Ends in {format_duration(time_s.mean)} for {format_usd(cost.mean)} in total"
    limits: list[str] = []
    if job.limits.deadline_s is not None:
        limits.append(f"the deadline ({format_duration(job.limits.deadline_s)})")
    if job.limits.budget_usd is not None:
        limits.append(f"the budget ({format_usd(job.limits.budget_usd)})")
    ends = [g.offer.ends_in_s for g in config.groups if g.offer.ends_in_s is not None]
    if ends:
        limits.append(f"the reservation's end (in {format_duration(min(ends))})")
    if not limits:
        return f"{line} (90 %: {format_duration(time_s.p90)}, {format_usd(cost.p90)} in total)."
    odds = format_odds(forecast.success_probability)
    return f"{line}, with {odds} within {' and '.join(limits)}."


def show_forecast(console: Console, config: ClusterConfig, forecast: JobForecast) -> None:
    """Prints where an iteration's time goes, and the spread of time and cost."""
    iteration = forecast.iteration
    total = iteration.mean_s
    console.print()
    if iteration.is_input_bound:
        console.print(
            f"  One iteration takes {format_duration(total)}: input-bound, the loader needs "
            f"{format_duration(iteration.input_s)}."
        )
    else:
        console.print(
            f"  One iteration takes {format_duration(total)} ± "
            f"{format_duration(forecast.iteration_s.std)} ({config.samples / total:,.0f} samples/s "
            f"on {config.world_size} GPUs):"
        )
        parts = Table.grid(padding=(0, 2))
        for name, seconds in (
            ("forward", iteration.forward_s),
            ("backward", iteration.backward_s),
            ("exchange not hidden", iteration.exposed_exchange_s),
            ("optimizer", iteration.optimizer_s),
        ):
            if seconds == 0:
                continue
            bar = "█" * round(30 * seconds / total)
            parts.add_row(f"    {name}", format_duration(seconds), f"{seconds / total:.0%}", bar)
        console.print(parts)
    traffic = f", {format_usd(forecast.traffic_usd)} in total for bytes that cross zones"
    console.print(
        f"  All VMs together cost {format_usd(config.usd_per_hour)} per hour"
        f"{traffic if forecast.traffic_usd else ''}."
    )
    table = Table.grid(padding=(0, 2))
    table.add_row("  ", "half of the time", "90 % of the time", "95 % of the time")
    time_s, cost = forecast.time_s, forecast.cost_usd
    table.add_row("  ends in", *(format_duration(t) for t in (time_s.p50, time_s.p90, time_s.p95)))
    table.add_row("  costs in total", *(format_usd(c) for c in (cost.p50, cost.p90, cost.p95)))
    console.print(table)
    if forecast.interruptions is not None:
        console.print(f"  {_losses(forecast.interruptions)}")


def _losses(told: Interruptions) -> str:
    """Returns what lost spot VMs do to a plan, and how often it saves."""
    saves = "no checkpoints"
    if told.checkpoint_every is not None and told.checkpoint_interval_s is not None:
        saves = (
            f"a checkpoint every {told.checkpoint_every:,} iterations "
            f"({format_duration(told.checkpoint_interval_s)})"
        )
    return (
        f"Spot: {told.expected:.2g} losses expected ({format_odds(told.none_probability)} none), "
        f"{format_duration(told.lost_s)} in total; {saves}."
    )


def _show_front(console: Console, result: PlanResult) -> None:
    """Prints runners-up and the time–cost front in one table."""
    rows = list(dict.fromkeys((*result.ranking[1:],)))
    # Only where each configuration was simulated is it certain that none stands between.
    seen = "" if result.method == "exhaustive" else " (the best seen; others may stand between)"
    if rows:
        console.print()
        console.print(Text(f"Runners-up{seen}", style="bold"))
        console.print(_plan_table(rows, {}))
    if len(result.front) > 1:
        console.print()
        console.print(
            Text("Time against cost (none searched is both faster and cheaper)", style="bold")
        )
        marks = {result.knee: "knee"} if result.knee is not None else {}
        if result.plan in result.front:
            index = result.front.index(result.plan)
            marks[index] = "chosen, knee" if result.knee == index else "chosen"
        shown, labels = _thin(result.front, marks)
        console.print(_plan_table(shown, labels))


def _thin(
    front: Sequence[Plan], marks: dict[int, str], most: int = 10
) -> tuple[list[Plan], dict[int, str]]:
    """Returns at most about ten plans of the front, its ends and the marked ones included."""
    step = max(1, -(-len(front) // most))
    kept = sorted({*range(0, len(front), step), len(front) - 1, *marks})
    return [front[i] for i in kept], {kept.index(i): mark for i, mark in marks.items()}


def _place(config: ClusterConfig) -> str:
    return ", ".join(dict.fromkeys(str(group.offer.location) for group in config.groups))


def _plan_table(plans: Sequence[Plan], marks: dict[int, str]) -> Table:
    # One configuration may stand in two zones: then the place tells the rows apart.
    names = [format_config(plan.config) for plan in plans]
    labels = [
        f"{name}  in {_place(plan.config)}" if names.count(name) > 1 else name
        for name, plan in zip(names, plans, strict=True)
    ]
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for heading in ("", "time", "90 %", "cost in total", "within limits", "configuration"):
        last = heading == "configuration"
        table.add_column(heading, justify="left" if last else "right", overflow="fold")
    for index, plan in enumerate(plans):
        forecast = plan.forecast
        table.add_row(
            marks.get(index, ""),
            format_duration(forecast.time_s.mean),
            format_duration(forecast.time_s.p90),
            format_usd(forecast.cost_usd.mean),
            format_odds(forecast.success_probability),
            Text(labels[index]),
        )
    return table


def _bullets(console: Console, title: str, lines: Sequence[str], style: str = "") -> None:
    if not lines:
        return
    console.print()
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Text(f"  - {line}", style=style))
