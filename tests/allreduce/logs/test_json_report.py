"""The JSON file of recent versions, whole, cut off or damaged."""

import json

import pytest

from srifty.allreduce.logs import read_log
from srifty.core.allreduce import Collective
from srifty.errors import InputError
from tests.allreduce.logs.written_logs import Job, report

JOB = Job(sizes=(64, 65536, 2**26), rate_gbps=100.0)
TEXT = report(JOB)


def read(text: str, **given):
    return read_log(text.encode(), name="out.json", **given)


def test_a_report():
    log = read(TEXT)
    expected = [
        (row["size"], key == "in_place", pytest.approx(row[key]["time"] * 1e-6))
        for row in json.loads(TEXT)["results"]
        for key in ("out_of_place", "in_place")
    ]
    assert [(row.size_bytes, row.in_place, row.time_s) for row in log.rows] == expected
    assert (log.world_size, log.vms, log.gpus_per_vm) == (16, 2, 8)
    assert log.world_size_from == "16 rank lines"
    assert log.library_version == "2.29.7"
    assert log.gpu == "NVIDIA H100 80GB HBM3"
    assert log.settings == {"NCCL_ALGO": "Ring"}
    assert log.complete
    assert "hidden" not in repr(log)


def test_an_indented_report_has_its_lines():
    log = read(json.dumps(json.loads(TEXT), indent=1))
    assert log.rows[0].line > 100
    assert log.rows[-1].line > log.rows[0].line


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter"])
def test_other_collectives(name):
    text = report(
        Job(sizes=(1024, 2**20), collective=name, redop="none" if "ga" in name else "sum")
    )
    assert {row.collective for row in read(text).rows} == {Collective(name)}


def test_a_broadcast_is_refused():
    log = read(TEXT.replace("all_reduce_perf", "broadcast_perf"))
    assert log.rows == ()
    assert "not an allreduce: the log says broadcast" in log.dropped[0].reason


@pytest.mark.parametrize("at", range(200, len(TEXT), 97))
def test_a_report_cut_anywhere_keeps_its_whole_rows(at):
    log = read(TEXT[:at])
    assert log.rows == read(TEXT).rows[: len(log.rows)]
    whole = TEXT[:at].count('actual_iterations": 20}')
    assert len(log.rows) == 2 * whole
    assert not log.complete or "average_bus" in TEXT[:at]
    assert not whole or any("the file ends before its JSON does" in w for w in log.warnings)


def changed(**changes) -> str:
    said = json.loads(TEXT)
    said["results"][1] |= changes
    return json.dumps(said)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"size": 65537}, "contradicts the count"),
        ({"type": "float9"}, "lacks a size, a count or a known type"),
        ({"count": None}, "lacks a size, a count or a known type"),
        ({"out_of_place": None, "in_place": None}, "has neither"),
        ({"in_place": {"time": 1.0}}, "in_place lacks a time or a bandwidth"),
        ({"in_place": {"time": 1.0, "alg_bw": 1.0, "bus_bw": 1.875}}, "in-place size / time"),
        ({"in_place": {"time": "nan", "alg_bw": 1.0, "bus_bw": 1.0}}, "in_place lacks a time"),
        ({"root": "     3"}, "it has a root"),
    ],
)
def test_a_bad_row_is_refused_alone(changes, reason):
    log = read(changed(**changes))
    assert [row.size_bytes for row in log.rows] == [64, 64, 2**26, 2**26]
    assert reason in log.dropped[0].reason


def test_wrong_values_are_refused():
    row = json.loads(TEXT)["results"][1]["out_of_place"] | {"nwrong": 3.0}
    assert "data check failed" in read(changed(out_of_place=row)).dropped[0].reason


def test_an_unmeasured_half():
    log = read(changed(out_of_place=None))
    assert [row.in_place for row in log.rows if row.size_bytes == 65536] == [True]


def test_processor_time_is_refused():
    log = read(TEXT.replace('"time"', '"cpu_time"'))
    assert log.rows == ()
    assert "those of the processor (-C)" in log.dropped[0].reason


def test_processes_with_several_gpus():
    said = json.loads(TEXT)
    said["config"]["devices"] = said["config"]["devices"][::8]
    said["config"]["ngpus"] = 8
    log = read(json.dumps(said))
    assert (log.world_size, log.vms) == (16, 2)


def test_nesting_without_end():
    with pytest.raises(InputError, match="nests too deeply"):
        read('{"version": 1, "args": ' + "[" * 200_000)


@pytest.mark.parametrize(
    "text",
    [
        '{"version":1,"args":[]}',
        '{"version":1,"args":[],"results":{}}',
        '{"version":1,"args":[],"results":[1,2]}',
        '{"version":1,"args":{},"env":3,"config":[],"results":[[]],"nccl_version":"x"}',
        '{"version":1,"args":[null],"config":{"devices":[{"rank":-1},{"rank":"0"},5]}}',
    ],
)
def test_reports_without_rows(text):
    assert read(text).rows == ()
