"""Rows that must not be used, each with its reason and its line."""

import pytest

from srifty.allreduce.logs import read_log
from srifty.core.allreduce import Collective
from tests.allreduce.logs.written_logs import Job, found, row_line, write

SIZES = (1024, 1048576, 16777216, 268435456, 1073741824)
JOB = Job(era="2022", sizes=SIZES, rate_gbps=100.0)
WRITTEN = write(JOB)
BAD = 2  # the row that is spoiled


def read(text: str, **given):
    return read_log(text.encode(), name="log.txt", **given)


def spoiled(column: int, text: str) -> str:
    """Returns the log with one word of one row replaced."""
    lines = list(WRITTEN.lines)
    words = lines[WRITTEN.first_row + BAD].split()
    words[column] = text
    lines[WRITTEN.first_row + BAD] = "  ".join(words)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        (0, "16777220", "contradicts the count"),
        (0, "0", "size 0"),
        (1, "4194305", "contradicts the count"),
        (2, "half", "columns are those of a reduce-scatter"),
        (2, "flout", "'flout' is no element type"),
        (3, "smu", "stops at 'smu' after 0 of 9 figures"),
        (4, "3", "it has a root"),
        (5, "9", "out-of-place size / time is"),
        (5, "0.00", "time is not above 0"),
        (5, "nan", "not finite"),
        (5, "-12.5", "time is not above 0"),
        (6, "77.77", "where algbw says 77.77"),
        (7, "177.77", "is not that of 16 ranks"),
        (8, "5", "its data check failed (5)"),
        (8, "1e+00", "its data check failed (1e+00)"),
        (8, "inf", "its data check failed (inf)"),
        (9, "9", "in-place size / time is"),
        (11, "0.00", "is not that of 16 ranks"),
        (12, "12", "its data check failed (12)"),
        (7, "12x3", "stops at '12x3' after 3 of 9 figures"),
    ],
)
def test_a_bad_row_is_refused_alone(column, text, reason):
    log = read(spoiled(column, text))
    assert found(log) == [one for one in WRITTEN.truth if one[0] != SIZES[BAD]]
    (dropped,) = log.dropped
    assert dropped.line == WRITTEN.first_row + BAD + 1
    assert reason in dropped.reason


def test_a_row_with_a_figure_too_many_or_too_few():
    text = "\n".join(WRITTEN.lines)
    line = WRITTEN.lines[WRITTEN.first_row + BAD]
    assert (
        "has 10 figures after its type where its table has 9"
        in read(text.replace(line, line + "  3.5")).dropped[0].reason
    )
    assert (
        "is cut off after 8 of 9 figures"
        in read(text.replace(line, " ".join(line.split()[:-1]))).dropped[0].reason
    )


def test_faster_than_any_link():
    job = Job(sizes=(2**30, 2**32, 2**34), rate_gbps=20_000.0, latency_us=1.0)
    log = read(write(job).text)
    assert log.rows == ()
    assert "more than any link has" in log.dropped[-1].reason


def test_larger_than_any_memory():
    size = 2**52
    job = Job(sizes=(1024, size), rate_gbps=100.0)
    assert f"size {size} is more than any memory holds" in read(write(job).text).dropped[0].reason


def test_sooner_than_any_gpu():
    log = read(write(Job(sizes=(8, 32, 128), latency_us=0.3)).text)
    assert log.rows == ()
    assert "is below 1 us" in log.dropped[0].reason


def test_a_summary_of_failures_that_no_row_shows_refuses_all():
    log = read(WRITTEN.text.replace("values : 0 OK", "values : 7 FAILED"))
    assert log.rows == ()
    assert "7 values failed the data check, and no row shows which" in log.dropped[0].reason


def test_a_summary_of_failures_that_a_row_shows_refuses_that_row():
    log = read(spoiled(8, "7").replace("values : 0 OK", "values : 7 FAILED"))
    assert len(log.dropped) == 1


def test_processor_time_is_refused():
    log = read(WRITTEN.text.replace("   time", "cputime"))
    assert log.rows == ()
    assert "those of the processor (-C)" in log.dropped[0].reason


@pytest.mark.parametrize("program", ["broadcast", "reduce", "sendrecv", "alltoall", "gather"])
def test_other_collectives_are_refused(program):
    command = f"mpirun -np 16 ./build/{program}_perf -b 1K -e 1G\n"
    log = read(command + WRITTEN.text)
    assert log.rows == ()
    assert f"the log says {program} (line 1)" in log.dropped[0].reason


def test_a_list_of_programs_says_nothing():
    listing = "ls build\nall_gather_perf  all_reduce_perf  alltoall_perf  broadcast_perf\n"
    assert found(read(listing + WRITTEN.text)) == WRITTEN.truth


def test_several_commands_above_one_table_say_nothing():
    commands = "".join(f"./{name}_perf -b 8\n" for name in ("all_reduce", "broadcast", "sendrecv"))
    assert found(read(commands + WRITTEN.text)) == WRITTEN.truth


@pytest.mark.parametrize("era", ["2019", "2022", "2025", "2026"])
@pytest.mark.parametrize(
    ("name", "collective"),
    [("all_gather", Collective.ALL_GATHER), ("reduce_scatter", Collective.REDUCE_SCATTER)],
)
def test_an_all_gather_or_reduce_scatter_is_kept_as_that(era, name, collective):
    written = write(Job(era=era, collective=name, sizes=SIZES))
    log = read(f"./build/{name}_perf -b 1K -e 1G -f 4\n" + written.text)
    assert found(log) == written.truth
    assert {row.collective for row in log.rows} == {collective}
    assert {row.redop for row in log.rows} == ({""} if name == "all_gather" else {"sum"})
    samples = log.samples("p4d.24xlarge")
    assert {sample.collective for sample in samples} == {collective}


def test_an_all_gather_without_its_name_might_be_an_all_to_all():
    written = write(Job(collective="all_gather", sizes=SIZES))
    log = read(written.text)
    assert log.rows == ()
    assert "all-gather or an all-to-all" in log.dropped[0].reason


def test_sizes_over_counts_tell_the_ranks_of_a_reduce_scatter():
    written = write(Job(collective="reduce_scatter", sizes=SIZES))
    rows = "\n".join(row_line(written.job, row) for row in written.rows)
    log = read(rows)
    assert (log.world_size, log.world_size_from) == (16, "size / count")


def test_a_name_against_the_columns_is_refused():
    log = read("./build/all_gather_perf -b 8\n" + WRITTEN.text)
    assert log.rows == ()
    assert "the columns are those of an allreduce" in log.dropped[0].reason


def test_an_old_all_gather_whose_bandwidths_are_both_of_the_bus():
    written = write(Job(era="2019", collective="all_gather", sizes=SIZES))
    lines = list(written.lines)
    for k, row in enumerate(written.rows):
        words = row_line(written.job, row).split()
        words[4], words[8] = words[5], words[9]
        lines[written.first_row + k] = "  ".join(words)
    log = read("all_gather_perf -g 8\n" + "\n".join(lines))
    assert {row.size_bytes for row in log.rows} <= {1024}
    assert "an all-gather, not an allreduce; out-of-place size / time" in log.dropped[-1].reason


def table_of(reductions, types) -> str:
    jobs = [
        Job(redop=r, dtype=t, sizes=(2**26,), seed=k)
        for k, (r, t) in enumerate((r, t) for t in types for r in reductions)
    ]
    lines = write(jobs[0]).lines
    first = write(jobs[0]).first_row
    return "\n".join([*lines[:first], *(row_line(job, write(job).rows[0]) for job in jobs)])


def test_other_reductions_are_left_out_unless_asked_for():
    text = table_of(("sum", "prod", "max", "min", "avg"), ("float",))
    log = read(text)
    assert [row.redop for row in log.rows] == ["sum", "sum"]
    assert len(log.dropped) == 4
    assert log.dropped[0].reason == "prod: other reductions than sum are left out"
    log = read(text, other_reductions=True)
    assert len(log.rows) == 10
    assert log.dropped == ()
    assert {row.run for row in log.rows} == {"0"}


def test_of_many_types_those_of_gradients_are_kept():
    log = read(table_of(("sum",), ("int8", "int", "half", "bfloat16", "float", "double")))
    assert {row.dtype for row in log.rows} == {"half", "bfloat16", "float"}
    assert "type int8" in log.dropped[0].reason


def test_a_table_of_one_type_keeps_it():
    assert {row.dtype for row in read(table_of(("sum",), ("double",))).rows} == {"double"}


def test_the_same_line_twice_is_one_measurement():
    line = WRITTEN.lines[WRITTEN.first_row]
    log = read(WRITTEN.text.replace(line, f"{line}\n{line}"))
    assert found(log) == WRITTEN.truth
    assert log.dropped[0].reason == "repeats an earlier line"


@pytest.mark.parametrize(("error", "kept"), [("9e-06", True), ("3e-03", False), ("1e+00", False)])
def test_how_large_an_error_is_let_pass(error, kept):
    text = write(Job(era="2019", sizes=SIZES)).text.replace("2e-07", error)
    assert bool(read(text).rows) == kept
