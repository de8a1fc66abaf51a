"""Lines that people's own tests print."""

import pytest

from srifty.allreduce.logs import read_log
from srifty.core.allreduce import Collective


def read(text: str, **given):
    return read_log(text.encode(), name="log.txt", **given)


def line(ids="[0, 1, 2, 3]", size="3.00000 GB", time="0.50000 s", speed="9.00", name="AllReduce"):
    return f"(worker pid=7) {name}: [{ids}]   Bytes: {size}   Time: {time} Bandwidth: {speed} GB/s"


@pytest.mark.parametrize(
    ("text", "ranks", "size", "time_s"),
    [
        (line(), 4, 3_000_000_000, 0.5),  # bus bandwidth: 6 x 1.5
        (line(speed="6.00"), 4, 3_000_000_000, 0.5),  # algorithm bandwidth
        (line(size="3000.0 MB", time="500.00 ms"), 4, 3_000_000_000, 0.5),
        (line(size="3.00 GiB", speed="9.66"), 4, 3 * 2**30, 0.5),
        (line(ids="[4, 5]", speed="6.00"), 2, 3_000_000_000, 0.5),
        (line(name="all_reduce"), 4, 3_000_000_000, 0.5),
    ],
)
def test_lines(text, ranks, size, time_s):
    log = read(text)
    (row,) = log.rows
    assert (row.collective, row.world_size, row.size_bytes) == (Collective.ALL_REDUCE, ranks, size)
    assert row.time_s == pytest.approx(time_s)
    assert log.world_size == ranks


def test_an_all_gather():
    (row,) = read(line(name="AllGather", speed="4.50")).rows
    assert row.collective is Collective.ALL_GATHER


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line(name="SendRecv"), "SendRecv is neither"),
        (line(speed="8.00"), "neither that nor its bus bandwidth for 4 ranks is 8 GB/s"),
        (line(ids="[0, 1], [2, 3]"), "2 groups of ranks ran at the same time"),
        (line(ids="[0]"), "lists 1 ranks"),
        (line(ids="[1, 1]", speed="6.00"), "lists 2 ranks, not at least two different"),
        (line(ids="[0, 1, 2 3]"), "lists 3 ranks, not at least two different"),
        (line(time="0.00000 s"), "no number above 0"),
        (line(time="0.5e-9 s", speed="9e9"), "faster or larger than any hardware"),
    ],
)
def test_refused(text, reason):
    log = read(text)
    assert log.rows == ()
    assert log.dropped[0].line == 1
    assert reason in log.dropped[0].reason


def test_what_the_user_says_must_agree():
    assert "lists 4 ranks, but --world-size says 8" in read(line(), world_size=8).dropped[0].reason
    assert read(line(), world_size=4, vms=2).vms == 2
    assert "5 VMs cannot hold only 4 ranks" in read(line(), vms=5).dropped[0].reason


def test_repeats():
    log = read("\n".join([line(), line(time="0.50001 s"), line()]))
    assert [row.run for row in log.rows] == ["0", "1", "2"]
    assert len(read("\n".join([line(), line()])).rows) == 1
