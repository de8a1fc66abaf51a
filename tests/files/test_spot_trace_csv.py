from __future__ import annotations

import os
from pathlib import Path

import pytest

from srifty.core.scenario import Supply
from srifty.errors import InputError
from srifty.files.spot_trace_csv import TraceChoice, read_supply

COUNTS = """\
kind,nodes,collection,cloud,zone,device,gap_seconds,start_tick,ticks,available
availability,1,c1,aws,us-east-1a,v100_1,100,0,5,1
availability,1,c1,aws,us-east-1a,v100_1,100,5,2,0
availability,1,c1,aws,us-east-1a,v100_1,100,7,9,1
availability,1,c1,aws,us-east-1b,v100_1,100,0,9,1
"""
ZONE = {"zone": "us-east-1a"}
SPOT = Path(os.environ.get("SRIFTY_SHARED", "../shared")) / "data" / "spot"


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "trace.csv"
    made.write_text(COUNTS)
    return made


@pytest.mark.parametrize(
    ("choice", "supply"),
    [
        (TraceChoice(ZONE), [(0, 1), (500, 0), (700, 1)]),
        (TraceChoice(ZONE, start_s=600.0), [(0, 0), (100, 1)]),
        (TraceChoice(ZONE, inverted=True, times=4), [(0, 0), (500, 4), (700, 0)]),
    ],
)
def test_counts_over_time(path, choice, supply):
    assert read_supply(path, choice) == tuple(Supply(float(at), vms) for at, vms in supply)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (COUNTS, {}, "several such traces"),
        (COUNTS, {"zone": "eu"}, "no rows of zone eu"),
        (COUNTS, {"zoo": "eu"}, "no column zoo"),
        (COUNTS.replace(",5,2,0", ",five,2,0"), ZONE, "cannot be read"),
        (COUNTS.replace("zone,", "town,"), {}, "is no trace of spot VMs"),
        ("trace,time_ms,event,node\na,1,come,n1\n", {}, "line 2: event must be add or remove"),
    ],
)
def test_what_is_wrong_is_said(path, text, columns, message):
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_supply(path, TraceChoice(columns))


@pytest.mark.skipif(not SPOT.exists(), reason="the public spot traces are not at hand")
def test_the_public_traces_are_read():
    counts = read_supply(
        SPOT / "skypilot_spot_traces_rle.csv",
        TraceChoice(
            {
                "kind": "availability",
                "nodes": "1",
                "collection": "aws-02-15-2023",
                "zone": "us-east-1d",
                "device": "v100_1",
            }
        ),
    )
    assert counts[:2] == (Supply(0.0, 0), Supply(1038 * 195.0, 1))
    nodes = read_supply(SPOT / "bamboo_node_events.csv", TraceChoice({"trace": "g4dn"}))
    assert nodes[:3] == (Supply(0.0, 0), Supply(480.0, 1), Supply(540.0, 2))
    assert max(step.vms for step in nodes) > 8
