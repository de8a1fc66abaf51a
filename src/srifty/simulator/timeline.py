"""One iteration as a timeline, for people and for Perfetto (Chrome trace JSON)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srifty import __version__
from srifty.core.cluster import ClusterConfig
from srifty.core.job import Job, Sharing
from srifty.core.notation import format_config, format_group
from srifty.simulator.exchange import ExchangeTimes
from srifty.simulator.iteration import Simulator
from srifty.simulator.sharing import Exchange, line_seconds, share_paper, share_slots
from srifty.simulator.tables import ConfigTable
from srifty.simulator.transfers import Transfers, job_transfers
from srifty.simulator.workers import worker_groups

# So many passes of gradient accumulation are drawn one by one.
_MOST_PASSES = 16


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasts.

    Attributes:
        track: the line it is drawn on.
        name: what it is.
        start_s: its start, seconds from the start of the iteration.
        duration_s: its length, seconds.
        details: further facts, for the tooltip.
    """

    track: str
    name: str
    start_s: float
    duration_s: float
    details: dict[str, float | int | str]


@dataclass(frozen=True)
class Timeline:
    """One iteration of one configuration.

    Attributes:
        title: the configuration.
        compute: forward, backward and optimizer spans, one track per VM group.
        ready: when each transfer is ready on the slowest worker.
        transfers: when each transfer runs.
        iteration_s: mean iteration time.
    """

    title: str
    compute: tuple[Span, ...]
    ready: tuple[Span, ...]
    transfers: tuple[Span, ...]
    iteration_s: float


def timeline_of(simulator: Simulator, job: Job, config: ClusterConfig) -> Timeline:
    """Returns the timeline of a mean iteration."""
    table = ConfigTable.from_configs([config])
    forecast = simulator.predict(job, table)
    row = forecast.row(0)
    # Nobody steps before the last allreduce has ended.
    step_at_s = row.forward_s + row.backward_s + row.exposed_exchange_s
    compute = _compute_spans(simulator, config, step_at_s)
    transfers = job_transfers(job)
    ready: tuple[Span, ...] = ()
    moved: tuple[Span, ...] = ()
    if transfers and config.world_size > 1:
        groups = worker_groups(simulator.latency, table)
        ready_s, _, _ = simulator.ready_times(groups, transfers)
        world = ExchangeTimes.of(simulator.allreduce, table, transfers.sizes_bytes)
        n = config.world_size
        bus_bytes = 2 * transfers.sizes_bytes * (n - 1) / n
        capacity = float(world.capacity[0])
        if job.sync.sharing is Sharing.PAPER:
            exchange = share_paper(ready_s[0], world.alone_s[0], bus_bytes, capacity)
        else:
            line_s = line_seconds(bus_bytes, world.alone_s[0], capacity)
            exchange = share_slots(ready_s[0], world.alone_s[0], line_s, job.sync.slots)
        ready = tuple(
            Span("ready", name, float(at), 0.0, {"bytes": int(size)})
            for name, at, size in zip(
                transfers.names, ready_s[0], transfers.sizes_bytes, strict=True
            )
        )
        moved = _transfer_spans(transfers, exchange)
    return Timeline(format_config(config), compute, ready, moved, row.mean_s)


def _compute_spans(
    simulator: Simulator, config: ClusterConfig, step_at_s: float
) -> tuple[Span, ...]:
    """Returns the passes of a worker with the largest share of each VM group, and its step."""
    spans: list[Span] = []
    for index, group in enumerate(config.groups, start=1):
        model = simulator.latency[group.offer.instance_type.gpu]
        track = f"{index}: {format_group(group)}"
        local = group.local_batches[0]
        least, larger = divmod(local, group.accumulation)
        passes = [(least + 1, larger), (least, group.accumulation - larger)]
        now = 0.0
        if group.accumulation > _MOST_PASSES:
            # One span for all but the last pass, which is the one that the exchange overlaps with.
            earlier = group.accumulation - 1
            for micro, count in ((least + 1, larger), (least, earlier - larger)):
                at = np.array([float(micro)])
                pass_s = float(model.forward.predict(at)[0] + model.backward.predict(at)[0])
                now += count * pass_s
            spans.append(Span(track, f"{earlier:,} passes", 0.0, now, {"micro_batch": least}))
            passes = [(least, 1)]
        for micro in (micro for micro, count in passes for _ in range(count)):
            at = np.array([float(micro)])
            for name, model_part in (("forward", model.forward), ("backward", model.backward)):
                duration = float(model_part.predict(at)[0])
                spans.append(Span(track, name, now, duration, {"micro_batch": micro}))
                now += duration
        if model.optimizer_s > 0:
            spans.append(Span(track, "optimizer", step_at_s, model.optimizer_s, {}))
    return tuple(spans)


def _transfer_spans(transfers: Transfers, exchange: Exchange) -> tuple[Span, ...]:
    """Returns the transfers, each on the first lane that is free."""
    free_at: list[tuple[float, int]] = []
    lanes = 0
    spans: list[Span] = []
    for k in map(int, np.argsort(exchange.start_s, kind="stable")):
        start, end = float(exchange.start_s[k]), float(exchange.end_s[k])
        if free_at and free_at[0][0] <= start:
            lane = heapq.heappop(free_at)[1]
        else:
            lanes = lane = lanes + 1
        heapq.heappush(free_at, (end, lane))
        spans.append(
            Span(
                f"slot {lane}",
                transfers.names[k],
                start,
                end - start,
                {"bytes": int(transfers.sizes_bytes[k])},
            )
        )
    return tuple(spans)


_MICROSECONDS = 1e6


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """Returns the timeline in the Chrome trace event format that Perfetto opens."""
    events: list[dict[str, Any]] = []
    sections: Sequence[tuple[str, tuple[Span, ...]]] = (
        ("compute", timeline.compute),
        ("ready times", timeline.ready),
        ("transfers", timeline.transfers),
    )
    for process, (section, spans) in enumerate(sections, start=1):
        events.append(_name_event("process_name", process, 0, section))
        tracks = {track: i for i, track in enumerate(dict.fromkeys(s.track for s in spans), 1)}
        for track, thread in tracks.items():
            events.append(_name_event("thread_name", process, thread, track))
        for span in spans:
            event: dict[str, Any] = {
                "name": span.name,
                "cat": section,
                "pid": process,
                "tid": tracks[span.track],
                "ts": span.start_s * _MICROSECONDS,
                "args": span.details,
            }
            if section == "ready times":
                event |= {"ph": "i", "s": "t"}
            else:
                event |= {"ph": "X", "dur": span.duration_s * _MICROSECONDS}
            events.append(event)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "config": timeline.title,
            "iteration_s": timeline.iteration_s,
            "srifty": __version__,
        },
    }


def _name_event(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
