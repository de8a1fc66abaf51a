"""From a parsed log to samples."""

from datetime import UTC, datetime

import pytest

from srifty.allreduce.logs import read_log
from srifty.errors import InputError
from tests.allreduce.logs.written_logs import Job, row_line, write

WRITTEN = write(Job(era="2019"))
SAID = (
    "vm-0:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"
    "vm-0:1:1 [0] NCCL INFO Using network Socket\nNCCL version 2.18.5+cuda12.2\n"
)


def test_samples_carry_what_the_log_says():
    log = read_log((SAID + WRITTEN.text).encode(), name="run.log")
    samples = log.samples("p3.16xlarge", cloud="aws", region="us-east-1", zone="us-east-1a")
    assert len(samples) == len(log.rows)
    for sample, row in zip(samples, log.rows, strict=True):
        assert sample.size_bytes == row.size_bytes
        assert sample.time_s == row.time_s
        assert sample.in_place == row.in_place
        assert (sample.vms, sample.world_size, sample.run) == (2, 16, "0")
        assert (sample.instance_type, sample.cloud) == ("p3.16xlarge", "aws")
        assert (sample.region, sample.zone) == ("us-east-1", "us-east-1a")
        assert (sample.transport, sample.library_version) == ("tcp-socket", "2.18.5")
        assert (sample.config, sample.dtype) == ("NCCL_ALGO=Ring", "float")
        assert (sample.gpu, sample.source) == ("Tesla V100-SXM2-16GB", "run.log")
    printed = [float(half.busbw) for row in WRITTEN.rows for half in row.halves]
    for sample, busbw in zip(samples, printed, strict=True):
        assert sample.bus_bytes_per_s / 1e9 == pytest.approx(busbw, abs=0.006, rel=1e-4)


def test_what_the_user_says_comes_first():
    when = datetime(2026, 1, 2, tzinfo=UTC)
    log = read_log((SAID + WRITTEN.text).encode(), name="run.log")
    sample = log.samples(
        "x", transport="efa", config="", measured_at=when, placement_group=True, source="mine"
    )[0]
    assert (sample.transport, sample.config, sample.measured_at) == ("efa", "", when)
    assert (sample.placement_group, sample.source) == (True, "mine")


def test_an_unknown_number_of_vms_is_asked_for():
    rows = "\n".join(row_line(WRITTEN.job, row) for row in WRITTEN.rows)
    log = read_log(rows.encode(), name="run.log", world_size=16)
    with pytest.raises(InputError, match=r"run\.log: does not show on how many VMs"):
        log.samples("p3.16xlarge")
    log = read_log(rows.encode(), name="run.log", world_size=16, vms=4)
    assert {sample.vms for sample in log.samples("p3.8xlarge")} == {4}


def test_a_log_without_rows_has_no_samples():
    assert read_log(b"", name="run.log").samples("x") == ()


def test_unequal_vms_have_no_number_of_gpus_each():
    lines = WRITTEN.text.replace("vm-1 device  7", "vm-2 device  7")
    log = read_log(lines.encode(), name="run.log")
    assert (log.world_size, log.vms, log.gpus_per_vm) == (16, 3, None)
