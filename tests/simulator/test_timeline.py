import json
from dataclasses import replace
from itertools import pairwise

import pytest

from srifty.core import GradientSync, format_config
from srifty.simulator import Simulator, chrome_trace, timeline_of
from srifty.simulator.tables import ConfigTable
from tests.builders import (
    PAPER_SYNC,
    PER_TENSOR,
    LinearAllreduce,
    Link,
    make_config,
    make_job,
    make_latency,
    make_offer,
    make_profile,
    make_type,
)

A = make_offer(make_type("a1.x", "A", gpus=4))
B = make_offer(make_type("b1.x", "B"))
LATENCY = {
    "A": make_latency("A", (0.01, 0.001), (0.02, 0.002), 0.005, 0.03, 0.02),
    "B": make_latency("B", (0.02, 0.001), (0.01, 0.003), 0.004, 0.02),
}
SIMULATOR = Simulator(LATENCY, LinearAllreduce(Link(2e-3, 1e9)))
CONFIG = make_config((A, 2, 37), (B, 1, 16, 3))
GRADIENTS = [(3_000_000, 0.1), (6_000_000, 0.15), (2_000_000, 0.5), (9_000_000, 0.55), (4000, 1.0)]
PROFILE = make_profile("A", GRADIENTS)
SYNCS = {
    "buckets": GradientSync(bucket_bytes=7_000_000),
    "tensors, two slots": replace(PER_TENSOR, slots=2),
    "tensors, unlimited": replace(PER_TENSOR, slots=None),
    "the paper's rule": PAPER_SYNC,
}


def timeline(sync, config=CONFIG, simulator=SIMULATOR):
    return timeline_of(simulator, make_job(PROFILE, sync=sync), config)


@pytest.mark.parametrize("case", SYNCS, ids=list(SYNCS))
def test_the_trace_is_a_valid_chrome_trace(case):
    trace = json.loads(json.dumps(chrome_trace(timeline(SYNCS[case])), allow_nan=False))
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    processes, threads = {}, {}
    for event in events:
        assert event["ph"] in ("M", "X", "i")
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["name"]
        if event["ph"] == "M":
            if event["name"] == "process_name":
                assert event["pid"] not in processes
                processes[event["pid"]] = event["args"]["name"]
            else:
                assert event["name"] == "thread_name"
                assert (event["pid"], event["tid"]) not in threads
                threads[event["pid"], event["tid"]] = event["args"]["name"]
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        else:
            assert event["s"] in ("g", "p", "t")
    assert set(processes.values()) == {"compute", "ready times", "transfers"}
    drawn = {(e["pid"], e["tid"]) for e in events if e["ph"] != "M"}
    assert drawn == set(threads)
    assert {pid for pid, _ in drawn} == set(processes)
    assert trace["otherData"]["config"] == format_config(CONFIG)


def test_the_trace_holds_what_the_timeline_holds():
    line = timeline(SYNCS["buckets"])
    events = [e for e in chrome_trace(line)["traceEvents"] if e["ph"] != "M"]
    spans = [*line.compute, *line.ready, *line.transfers]
    assert [event["name"] for event in events] == [span.name for span in spans]
    for event, span in zip(events, spans, strict=True):
        assert event["ts"] == pytest.approx(span.start_s * 1e6, rel=1e-12)
        assert event.get("dur", 0) == pytest.approx(span.duration_s * 1e6, rel=1e-12)


@pytest.mark.parametrize("case", SYNCS, ids=list(SYNCS))
def test_nothing_overlaps_on_one_track(case):
    line = timeline(SYNCS[case])
    for spans in (line.compute, line.transfers):
        for track in {span.track for span in spans}:
            on_track = sorted((s for s in spans if s.track == track), key=lambda s: s.start_s)
            for before, after in pairwise(on_track):
                assert before.start_s + before.duration_s <= after.start_s + 1e-12


@pytest.mark.parametrize(("case", "lanes"), [("buckets", 1), ("tensors, two slots", 2)])
def test_there_are_as_many_lanes_as_slots(case, lanes):
    tracks = {span.track for span in timeline(SYNCS[case]).transfers}
    assert tracks == {f"slot {lane}" for lane in range(1, lanes + 1)}


@pytest.mark.parametrize("case", SYNCS, ids=list(SYNCS))
def test_the_last_transfer_and_the_optimizer_end_with_the_iteration(case):
    line = timeline(SYNCS[case])
    job = make_job(PROFILE, sync=SYNCS[case])
    row = SIMULATOR.predict(job, ConfigTable.from_configs([CONFIG])).row(0)
    assert row.exposed_exchange_s > 0  # else the transfers would not decide
    last_s = max(span.start_s + span.duration_s for span in line.transfers)
    assert line.iteration_s == row.mean_s
    assert last_s + row.optimizer_s == pytest.approx(row.mean_s, rel=1e-9)
    optimizer = [span for span in line.compute if span.name == "optimizer"]
    assert len(optimizer) == 2
    # Every worker steps once the gradients are there, none before.
    assert min(span.start_s for span in optimizer) == pytest.approx(last_s, rel=1e-9)
    ends = max(span.start_s + span.duration_s for span in optimizer)
    assert ends == pytest.approx(row.mean_s, rel=1e-9)


@pytest.mark.parametrize("case", SYNCS, ids=list(SYNCS))
def test_no_transfer_starts_before_its_gradients_are_ready(case):
    line = timeline(SYNCS[case])
    ready = {span.name: span.start_s for span in line.ready}
    assert len(ready) == len(line.ready) == len(line.transfers)
    for span in line.transfers:
        assert span.start_s >= ready[span.name] - 1e-12
    sizes = [span.details["bytes"] for span in line.transfers]
    assert sum(sizes) == sum(size for size, _ in GRADIENTS)


def test_every_group_makes_its_passes():
    line = timeline(SYNCS["buckets"])
    tracks = {}
    for span in line.compute:
        tracks.setdefault(span.track, []).append(span)
    assert list(tracks) == ["1: 2a1.x@37", "2: 1b1.x@16x3"]
    names = [span.name for span in tracks["2: 1b1.x@16x3"]]
    assert names == ["forward", "backward"] * 3 + ["optimizer"]
    # The worker with the largest share: 10 of 37; 16 in passes of 6, 5, 5.
    assert tracks["1: 2a1.x@37"][0].details["micro_batch"] == 10
    assert [s.details["micro_batch"] for s in tracks["2: 1b1.x@16x3"][:6:2]] == [6, 5, 5]
    assert tracks["1: 2a1.x@37"][0].duration_s == pytest.approx(0.02, rel=1e-12)


def test_one_worker_has_no_transfers():
    line = timeline(SYNCS["buckets"], make_config((B, 1, 16)))
    assert line.ready == line.transfers == ()
    optimizer = line.compute[-1]
    assert optimizer.start_s + optimizer.duration_s == pytest.approx(line.iteration_s, rel=1e-9)


@pytest.mark.parametrize("gradients", [None, []])
def test_without_gradients_there_are_no_transfers(gradients):
    line = timeline_of(SIMULATOR, make_job(make_profile("A", gradients)), CONFIG)
    assert line.transfers == ()
    assert json.dumps(chrome_trace(line))


def test_many_passes_are_one_span_that_lasts_as_long():
    few = timeline_of(SIMULATOR, make_job(PROFILE), make_config((B, 1, 35, 16)))
    many = timeline_of(SIMULATOR, make_job(PROFILE), make_config((B, 1, 2_000_003, 1_000_000)))
    assert [span.name for span in few.compute if span.name == "forward"] == ["forward"] * 16
    assert [span.name for span in many.compute[:3]] == ["999,999 passes", "forward", "backward"]
    passes, forward, backward = many.compute[:3]
    # Three of the passes take 3 samples, the others 2: B's curves are lines.
    assert passes.duration_s == pytest.approx(
        999_999 * (0.02 + 0.01) + 2_000_001 * (0.001 + 0.003), rel=1e-9
    )
    assert forward.start_s == pytest.approx(passes.duration_s)
    assert backward.details == {"micro_batch": 2}
