"""How many ranks, and on how many VMs: never guessed, never against the figures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.allreduce.logs import read_log
from tests.allreduce.logs.written_logs import Job, found, row_line, write

LARGE = tuple(2**k for k in range(26, 33))
FAST = Job(era="2022", vms=2, gpus=8, sizes=LARGE, rate_gbps=300.0)


def read(text: str, **given):
    return read_log(text.encode(), name="log.txt", **given)


def rows_only(job: Job) -> str:
    return "\n".join(row_line(job, row) for row in write(job).rows)


def message(ranks: int, rank: int = 0) -> str:
    return f"vm-0:7:9 [0] NCCL INFO comm 0x55 rank {rank} nranks {ranks} cudaDev 0 - Init COMPLETE"


@settings(deadline=None, max_examples=30)
@given(vms=st.integers(1, 12), gpus=st.sampled_from([1, 2, 4, 8]), seed=st.integers(0, 99))
def test_the_figures_alone_never_give_a_wrong_world(vms, gpus, seed):
    job = Job(vms=vms, gpus=max(gpus, 1 + (vms == 1)), sizes=LARGE, rate_gbps=300.0, seed=seed)
    log = read(rows_only(job))
    if log.rows:
        assert (log.world_size, log.world_size_from) == (job.ranks, "busbw/algbw")
    else:
        low, high = log.world_size_range
        assert low <= job.ranks <= high
        assert f"({low} to {high} fit); give --world-size N" in log.dropped[0].reason
        assert found(read(rows_only(job), world_size=job.ranks)) == write(job).truth


def test_slow_rows_without_a_list_need_the_world_size():
    job = Job(vms=16, gpus=1, rate_gbps=0.5)
    log = read(rows_only(job))
    assert log.rows == ()
    assert len(log.dropped) == len(job.sizes)
    assert all("give --world-size N" in dropped.reason for dropped in log.dropped)
    log = read(rows_only(job), world_size=16)
    assert found(log) == write(job).truth
    assert (log.world_size, log.world_size_from) == (16, "--world-size")


@pytest.mark.parametrize("size", [2, 8, 15, 32])
def test_a_world_size_against_the_figures_is_refused(size):
    log = read(rows_only(FAST), world_size=size)
    assert log.rows == ()
    assert "disagree" in log.dropped[0].reason


def test_a_world_size_against_the_device_list_is_refused():
    log = read(write(Job(rate_gbps=0.3)).text, world_size=8)
    assert log.rows == ()
    assert "16 rank lines and --world-size disagree: 16 ranks or 8" in log.dropped[0].reason


def test_a_world_size_that_agrees_is_fine():
    log = read(write(FAST).text, world_size=16)
    assert (log.world_size, log.world_size_from) == (16, "16 rank lines")


def test_a_device_list_against_the_figures_is_refused():
    lines = [line for line in write(FAST).lines if " on       vm-1 " not in line]
    log = read("\n".join(lines))
    assert log.rows == ()
    assert "8 rank lines and busbw/algbw disagree: 8 ranks or 16" in log.dropped[0].reason


def test_messages_name_the_number_of_ranks():
    log = read(message(16) + "\n" + rows_only(Job(rate_gbps=0.3)))
    assert (log.world_size, log.world_size_from) == (16, "nranks 16 in the log")


def test_messages_after_the_table_count_too():
    log = read(rows_only(Job(rate_gbps=0.3)) + "\n" + message(16).replace("Init", "Destroy"))
    assert log.world_size == 16


def test_of_several_communicators_the_figures_choose():
    log = read("\n".join([message(8), message(16), rows_only(FAST)]))
    assert (log.world_size, log.world_size_from) == (16, "nranks 16 in the log")


def test_several_communicators_and_no_telling_figures_decide_nothing():
    log = read("\n".join([message(8), message(16), rows_only(Job(rate_gbps=0.3))]))
    assert log.rows == ()


def test_messages_against_the_device_list_are_refused():
    log = read(message(32) + "\n" + write(Job(rate_gbps=0.3)).text)
    assert "16 rank lines and nranks 32 in the log disagree" in log.dropped[0].reason


def kept_ranks(job: Job, kept: set[int], dots: bool = False) -> str:
    lines = []
    for line in write(job).lines:
        if "Rank" not in line or int(line.split()[2]) in kept:
            lines.append(line)
            if dots and "Rank" in line:
                lines.append("...")
    return "\n".join(lines)


@pytest.mark.parametrize("kept", [{0}, {0, 7, 8, 15}, {3, 4}])
def test_an_excerpt_of_a_device_list_leaves_it_to_the_figures(kept):
    log = read(kept_ranks(FAST, kept))
    assert (log.world_size, log.world_size_from, log.vms) == (16, "busbw/algbw", None)
    slow = read(kept_ranks(Job(rate_gbps=0.3), kept))
    assert slow.rows == ()
    assert "give --world-size" in slow.dropped[0].reason


def test_dots_after_a_device_list_make_it_an_excerpt():
    assert read(kept_ranks(FAST, set(range(8)), dots=True)).world_size == 16
    assert read(kept_ranks(Job(rate_gbps=0.3), set(range(8)), dots=True)).rows == ()


def test_a_listed_rank_beyond_the_figures_is_refused():
    lines = write(FAST).text.replace("Rank 15", "Rank 63")
    log = read(lines)
    assert log.rows == ()
    assert "Rank 63 is listed, but busbw / algbw says 16 ranks" in log.dropped[0].reason


def alone(job: Job) -> str:
    """Returns rows of processes that ran each on their own."""
    rows = []
    for row in write(job).rows:
        halves = tuple(
            half.__class__(half.time, half.algbw, "0.00", half.check) for half in row.halves
        )
        rows.append(row_line(job, row.__class__(row.size, row.count, halves)))
    return "\n".join(rows)


@pytest.mark.parametrize("given_size", [None, 16])
def test_processes_that_ran_alone_are_refused(given_size):
    log = read(alone(FAST), world_size=given_size)
    assert log.rows == ()
    assert len(log.dropped) == len(FAST.sizes)
    reason = log.dropped[0].reason
    assert "world size 1" in reason
    assert "busbw is 0.00" in reason
    assert "make MPI=1" in reason


def test_a_communicator_of_one_is_refused():
    log = read(message(1) + "\n" + rows_only(Job(rate_gbps=0.3)), world_size=16)
    assert "world size 1: the log says nranks 1" in log.dropped[0].reason


@pytest.mark.parametrize(
    ("again", "place"),
    [
        ("#   Rank  0 Group  0 Pid  99 on  vm-5 device  0 [0x00] Tesla V100-SXM2-16GB", "vm-5"),
        ("#   Rank  0 Group  0 Pid  99 on  vm-0 device  0 [0x00] Tesla V100-SXM2-16GB", "vm-0"),
    ],
)
def test_a_rank_listed_twice_is_refused(again, place):
    lines = write(FAST).lines
    at = next(k for k, line in enumerate(lines) if "Rank 15" in line) + 1
    log = read("\n".join([*lines[:at], again, *lines[at:]]))
    assert log.rows == ()
    reason = log.dropped[0].reason
    assert reason.startswith("Rank 0 is listed on line ")
    assert f"again on line {at + 1} ({place})" in reason
    assert "MPI=1" in reason


def test_jobs_at_the_same_time_are_refused_with_all_their_tables():
    one, other = write(Job(vms=1, sizes=LARGE, seed=1)), write(Job(vms=1, sizes=LARGE, seed=2))
    lists = [
        line.replace("vm-0", host)
        for host in ("vm-0", "vm-7")
        for line in one.lines
        if "Rank" in line
    ]
    tables = [line for written in (one, other) for line in written.lines[written.first_row - 3 :]]
    log = read("\n".join([*lists, *tables]))
    assert log.rows == ()
    assert len(log.dropped) == 2 * len(LARGE)
    assert all("several jobs ran at once" in dropped.reason for dropped in log.dropped)


def test_a_table_before_a_contradictory_list_is_fine():
    again = "#   Rank  0 Group  0 Pid  99 on  vm-5 device  0 [0x00] Tesla V100-SXM2-16GB"
    lines = write(FAST).lines
    at = next(k for k, line in enumerate(lines) if "Rank 15" in line) + 1
    log = read("\n".join([rows_only(FAST), *lines[:at], again, *lines[at:]]))
    assert found(log) == write(FAST).truth
    assert len(log.dropped) == len(LARGE)


def test_the_same_line_twice_is_the_same_rank():
    lines = write(FAST).lines
    at = next(k for k, line in enumerate(lines) if "Rank 15" in line)
    assert read("\n".join([*lines[:at], lines[at], *lines[at:]])).world_size == 16


def test_a_start_that_failed_and_was_repeated():
    written = write(FAST)
    device_list = [line for line in written.lines if "Rank" in line or "Using" in line]
    failed = [line.replace("Pid   4", "Pid   5") for line in device_list]
    text = "\n".join([*failed, "vm-1: Test CUDA failure common.cu:892 'out of memory'"])
    log = read(text + "\n" + written.text)
    assert found(log) == written.truth


def test_groups_at_the_same_time_are_refused():
    lines = write(FAST).text
    for rank in range(8, 16):
        lines = lines.replace(f"Rank {rank:2d} Group  0", f"Rank {rank:2d} Group  1")
    assert "several groups of ranks ran at the same time" in read(lines).dropped[0].reason


def test_rows_of_two_worlds_in_one_table_are_refused():
    text = rows_only(FAST) + "\n" + rows_only(Job(vms=1, gpus=4, sizes=LARGE, rate_gbps=300.0))
    log = read(text)
    assert log.rows == ()
    assert "differs from row to row" in log.dropped[0].reason


def test_one_row_of_another_world_is_dropped_alone():
    other = row_line(FAST, write(Job(vms=1, gpus=4, sizes=(2**33,), rate_gbps=300.0)).rows[0])
    log = read(rows_only(FAST) + "\n" + other)
    assert found(log) == write(FAST).truth
    assert "is not that of 16 ranks" in log.dropped[0].reason


def test_vms_given_for_a_log_that_does_not_show_them():
    log = read(rows_only(FAST), vms=2)
    assert (log.vms, log.gpus_per_vm) == (2, 8)
    assert {row.vms for row in log.rows} == {2}


def test_more_vms_than_hosts_are_refused():
    log = read(write(FAST).text, vms=4)
    assert "the log names 2 hosts, fewer than the 4 VMs given" in log.dropped[0].reason


def test_containers_may_share_a_vm():
    log = read(write(FAST).text, vms=1)
    assert log.vms == 1
    assert any("2 hosts; taken as 1 VMs" in warning for warning in log.warnings)


def test_more_vms_than_ranks_are_refused():
    assert "cannot hold only 16 ranks" in read(rows_only(FAST), vms=17).dropped[0].reason


def test_messages_name_the_number_of_machines():
    said = "vm-0:7:9 [0] NCCL INFO comm 0x3 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0"
    log = read(said + "\n" + rows_only(FAST))
    assert (log.world_size, log.vms) == (16, 2)
