"""Public logs and reported cases, where they are at hand: exactly the known rows come out."""

import csv
import os
from collections import defaultdict
from pathlib import Path

import pytest

from srifty.allreduce.logs import read_log
from tests.allreduce.logs.written_logs import found

SHARED = Path(os.environ.get("SRIFTY_SHARED", Path(__file__).parents[4] / "shared"))
LOGS = SHARED / "data" / "nccl-tests"
CASES = SHARED / "cases"

needs_logs = pytest.mark.skipif(not LOGS.is_dir(), reason="the public logs are not at hand")
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the reported cases are not at hand")


def case(name: str, **given):
    return read_log((CASES / name).read_bytes(), name=name, **given)


@needs_logs
def test_every_public_log_gives_exactly_its_known_rows():
    known = defaultdict(list)
    vms = {}
    with (LOGS / "allreduce.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["raw"]:
                known[row["raw"]].append(row)
                vms[row["raw"]] = int(row["nodes"])
    for path in sorted((LOGS / "raw").iterdir()):
        log = read_log(path.read_bytes(), name=path.name)
        rows = known.pop(path.name)
        assert [
            (row.size_bytes, row.in_place, row.dtype, row.world_size, row.run) for row in log.rows
        ] == [
            (
                int(row["size_bytes"]),
                row["inplace"] == "1",
                row["dtype"],
                int(row["world_size"]),
                row["run"].split("/")[-1],
            )
            for row in rows
        ], path.name
        # The table keeps six digits of a time.
        assert [row.time_s * 1e6 for row in log.rows] == pytest.approx(
            [float(row["time_us"]) for row in rows], rel=5.1e-6
        )
        assert log.vms in (None, vms[path.name])
        # Where a file holds all ranks, it says on how many machines they are.
        assert (log.vms is None) == (
            "readme" in path.name and " on " not in path.read_text("utf-8")
        )
        assert all(dropped.reason.startswith("size 0") for dropped in log.dropped)
    assert not known


@needs_cases
def test_sixteen_jobs_of_one_rank():
    log = case("N02.txt", world_size=16)
    assert (log.rows, len(log.dropped)) == ((), 24)
    for part in ("world size 1", "busbw is 0.00", "nranks 1", "below 1 us", "MPI=1", "make clean"):
        assert part in log.dropped[0].reason
    control = case("N02_control.txt")
    assert (control.lines, control.world_size) == (5, 16)


@needs_cases
def test_a_launcher_log_with_tags():
    log = case("N03.txt")
    assert (log.lines, len(log.rows)) == (28, 56)
    assert (log.world_size, log.vms, log.gpus_per_vm) == (16, 2, 8)
    assert (log.library_version, log.transport, log.complete) == ("2.8.3", "efa", True)
    assert log.averages[0].printed_gbps == 7.80081
    assert log.averages[0].mean_gbps == pytest.approx(7.80081, abs=0.01)


@needs_cases
def test_the_first_nccls_own_test():
    log = case("N05.txt")
    assert {(row.dtype, row.redop, row.size_bytes) for row in log.rows} == {
        ("half", "sum", 10_000_000),
        ("float", "sum", 10_000_000),
    }
    assert [row.time_s for row in log.rows] == pytest.approx(
        [1.617e-3, 1.636e-3, 1.618e-3, 1.622e-3]
    )
    assert (log.world_size, log.vms) == (4, 1)
    assert "too little for a curve" in log.warnings[0]
    assert len(log.dropped) == 18


@needs_cases
def test_an_all_gather_that_failed_its_check():
    log = case("N06.txt")
    assert log.rows == ()
    (dropped,) = log.dropped
    assert "all-gather, not an allreduce" in dropped.reason
    assert "size / time is 147.482 GB/s where algbw says 129.05" in dropped.reason
    assert "data check failed (1e+00)" in dropped.reason


@needs_cases
def test_a_sweep_of_a_thousand_that_died():
    log = case("N07.txt")
    assert (log.rows, log.world_size, log.world_size_range) == ((), None, (1011, 1035))
    assert "(1011 to 1035 fit); give --world-size N" in log.dropped[0].reason
    log = case("N07.txt", world_size=1024)
    assert (log.lines, log.complete) == (5, False)
    assert any("Reducing maxBytes" in warning for warning in log.warnings)
    assert any("Test NCCL failure" in warning for warning in log.warnings)
    assert case("N07.txt", world_size=512).rows == ()
    data = (CASES / "N07.txt").read_bytes()
    start = data.index(b" 17179869184")
    for end in range(start + 42, data.index(b"\n", start)):
        log = read_log(data[:end], name="N07.txt", world_size=1024)
        assert log.lines == 4
        assert "after" in log.dropped[0].reason


@needs_cases
def test_one_log_from_three_editors():
    log = case("N08.txt")
    assert (log.lines, log.world_size, log.vms, log.gpus_per_vm) == (11, 3, 3, 1)
    assert any("105 MB to 115 MB" in warning for warning in log.warnings)
    assert any("one iteration" in warning for warning in log.warnings)
    for name in ("N10_crlf_bom.txt", "N10_ansi.txt"):
        other = case(name)
        assert other.rows == log.rows
        assert other.samples("g4dn.xlarge", source="x") == log.samples("g4dn.xlarge", source="x")


@needs_cases
def test_home_made_lines():
    log = case("M01b.txt")
    assert [(row.world_size, row.size_bytes, row.time_s) for row in log.rows] == [
        (8, 2 * 10**9, 0.68834),
        (4, 2 * 10**9, 0.01403),
    ]
    assert "SendRecv" in log.dropped[0].reason
    busbw = [sample.bus_bytes_per_s / 1e9 for sample in case("M01b.txt", vms=1).samples("x")]
    assert busbw == pytest.approx([5.08, 213.81], rel=2e-3)


@needs_cases
def test_another_version_is_another_curve():
    data = (CASES / "N03.txt").read_bytes()
    other = read_log(data.replace(b"version 2.8.3", b"version 2.20.5"), name="N03.txt")
    assert other.library_version == "2.20.5"
    assert (
        other.samples("p4d.24xlarge")[0].curve != case("N03.txt").samples("p4d.24xlarge")[0].curve
    )
    mixed = read_log(data + data.replace(b"version 2.8.3", b"version 2.20.5"), name="both.txt")
    assert "several versions of NCCL: 2.8.3, 2.20.5" in mixed.warnings
    assert found(mixed) == 2 * found(other)
