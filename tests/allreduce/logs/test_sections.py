"""Several tables in one file, and what stands between them."""

import pytest

from srifty.allreduce.logs import read_log
from srifty.core.allreduce import Collective
from tests.allreduce.logs.written_logs import Job, found, row_line, write

SIZES = (4096, 2**22, 2**28)


def job(**changes) -> Job:
    return Job(**({"era": "2022", "sizes": SIZES} | changes))


def read(*texts: str, **given):
    return read_log("\n".join(texts).encode(), name="log.txt", **given)


def test_repeats_are_numbered():
    repeats = [write(job(seed=seed)) for seed in range(3)]
    log = read(*(written.text for written in repeats))
    assert found(log) == [one for written in repeats for one in written.truth]
    assert [row.run for row in log.rows] == ["0"] * 6 + ["1"] * 6 + ["2"] * 6
    assert [row.table for row in log.rows] == [0] * 6 + [1] * 6 + [2] * 6
    assert log.warnings == ()
    assert len(log.averages) == 3


def test_tables_of_other_worlds_and_collectives():
    parts = [
        write(job(era="2025", vms=1, seed=1)),
        write(job(era="2025", vms=2, seed=2)),
        write(job(era="2025", vms=2, seed=3, collective="all_gather")),
        write(job(era="2025", vms=2, seed=4)),
        write(job(era="2025", vms=1, seed=5)),
    ]
    log = read(*(written.text for written in parts))
    assert found(log) == [one for written in parts for one in written.truth]
    firsts = log.rows[::6]
    assert [row.world_size for row in firsts] == [8, 16, 16, 16, 8]
    assert [row.vms for row in firsts] == [1, 2, 2, 2, 1]
    assert [row.run for row in firsts] == ["0", "0", "0", "1", "1"]
    assert firsts[2].collective is Collective.ALL_GATHER
    assert (log.world_size, log.vms, log.gpus_per_vm) == (None, None, None)
    assert "tables of different world sizes: 8, 16" in log.warnings


def test_a_refused_table_leaves_the_others():
    good, bad = write(job(era="2025", seed=1)), write(job(era="2025", seed=2))
    other = bad.text.replace("all_reduce_perf", "broadcast_perf")
    log = read(good.text, other, good.text.replace("all_reduce", "all_reduce"))
    assert len(log.rows) == 12
    assert {dropped.reason for dropped in log.dropped} == {
        f"not an allreduce: the log says broadcast (line {good.text.count(chr(10)) + 3})"
    }


@pytest.mark.parametrize("rate", [200.0, 0.5])
def test_a_later_table_without_a_list_has_the_ranks_of_the_first(rate):
    first, second = write(job(seed=1, rate_gbps=rate)), write(job(seed=2, rate_gbps=rate))
    head = second.lines.index("# Using devices")
    table = [line for line in second.lines[head:] if "Rank" not in line and "Using" not in line]
    log = read(first.text, *table)
    assert found(log) == first.truth + second.truth
    assert {row.world_size for row in log.rows} == {16}


def test_a_later_table_of_another_world_without_a_list_has_its_own():
    first = write(job(seed=1))
    second = write(job(vms=1, gpus=4, seed=2, rate_gbps=300.0, sizes=(2**28, 2**30)))
    rows = [row_line(second.job, row) for row in second.rows]
    log = read(first.text, *rows)
    assert [row.world_size for row in log.rows] == [16] * 6 + [4] * 4


def test_cycles_without_a_header_are_repeats():
    first, second = write(job(seed=1)), write(job(seed=2))
    at = first.first_row + 3
    rows = [row_line(job(), row) for row in second.rows]
    log = read(*first.lines[:at], *rows, *first.lines[at:])
    assert found(log) == first.truth + second.truth
    assert [row.run for row in log.rows] == ["0"] * 6 + ["1"] * 6


def test_a_list_of_devices_below_the_header():
    written = write(job())
    ranks = [line for line in written.lines if "Rank" in line]
    rest = [line for line in written.lines if "Rank" not in line]
    at = next(k for k, line in enumerate(rest) if "268435456  " in line) - 2
    log = read(*rest[:at], *ranks, *rest[at:])
    assert found(log) == written.truth
    assert (log.world_size, log.vms) == (16, 2)


def test_messages_after_a_summary_belong_to_the_next_table():
    first, second = write(job(seed=1)), write(job(vms=1, seed=2))
    rows = [row_line(job(vms=1), row) for row in second.rows]
    said = "vm-0:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 busId 1 - Init COMPLETE"
    gone = said.replace("Init", "Destroy").replace("nranks 8", "nranks 16")
    log = read(*first.lines, gone, said, *rows)
    assert [row.world_size for row in log.rows] == [16] * 6 + [8] * 6


def test_a_run_that_died():
    written = write(job())
    at = written.first_row + 2
    end = ["vm-1: Test NCCL failure common.cu:1204 'unhandled cuda error'", " .. vm-1 pid 7: Test"]
    log = read("# Reducing maxBytes to 777 due to memory limitation", *written.lines[:at], *end)
    assert found(log) == written.truth[:4]
    assert not log.complete
    assert log.warnings == (
        "line 1: Reducing maxBytes to 777 due to memory limitation",
        "the last table has no summary: the run is incomplete; "
        f"line {at + 2}: vm-1: Test NCCL failure common.cu:1204 'unhandled cuda error'",
    )


def test_a_failure_after_the_summary_is_told():
    log = read(*write(job()).lines, "srun: error: vm-1: task 3: Exited with exit code 1")
    assert log.complete
    assert log.warnings[0].endswith("srun: error: vm-1: task 3: Exited with exit code 1")


def test_the_printed_average_tells_that_rows_are_missing():
    written = write(job())
    (average,) = read(written.text).averages
    assert average.printed_gbps == pytest.approx(average.mean_gbps, abs=1e-4)
    lines = list(written.lines)
    del lines[written.first_row]
    log = read(*lines)
    assert "rows are missing or changed" in log.warnings[0]
    assert log.averages[0].line == len(lines) - 1


def test_one_size_and_a_narrow_range():
    assert "only one size (4.19 MB)" in read(write(job(sizes=(2**22,))).text).warnings[0]
    (warning,) = read(write(job(sizes=(100_000_000, 110_000_000))).text).warnings
    assert warning == "only sizes from 100 MB to 110 MB: nothing is known about others"


def test_one_iteration():
    log = read(write(job()).text.replace("iters: 20", "iters: 1"))
    assert log.warnings == ("one iteration per size: times scatter more than usual",)


def test_settings_of_a_later_table():
    command = "mpirun -np 16 -x NCCL_ALGO={} ./build/all_reduce_perf -b 8"
    first, second = write(job(seed=1)).text, write(job(seed=2)).text
    same = read(command.format("Ring"), first, command.format("Ring"), second)
    assert (same.warnings, same.config) == ((), "NCCL_ALGO=Ring")
    other = read(command.format("Ring"), first, command.format("Tree"), second)
    assert other.warnings == (
        "settings differ from table to table, but are kept for the file as a whole: NCCL_ALGO",
    )


def test_a_header_of_one_half_above_rows_of_two():
    written = write(job(sizes=(64, *SIZES)))
    lines = [
        line[: line.index("#wrong") + 6] if "#wrong" in line else line for line in written.lines
    ]
    log = read(*lines)
    assert found(log) == written.truth[2:]
    assert "has 9 figures after its type where its table has 5" in log.dropped[0].reason
