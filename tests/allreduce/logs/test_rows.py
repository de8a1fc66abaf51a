"""Rows in pieces: put together where the arithmetic proves it, else dropped."""

import random

import pytest

from srifty.allreduce.logs import read_log
from tests.allreduce.logs.written_logs import Job, found, row_line, write

JOB = Job(era="2022", sizes=(2**22, 2**24, 2**26, 2**28), rate_gbps=100.0)
WRITTEN = write(JOB)
MESSAGE = "vm-1:26:31 [3] NCCL INFO Channel 00/02 : 0 1"


def read(text: str, **given):
    return read_log(text.encode(), name="log.txt", **given)


def with_row(change) -> str:
    lines = list(WRITTEN.lines)
    lines[WRITTEN.first_row + 1] = change(lines[WRITTEN.first_row + 1])
    return "\n".join(lines)


ROW = WRITTEN.lines[WRITTEN.first_row + 1]


@pytest.mark.parametrize("between", ["", MESSAGE, f"{MESSAGE}\n{MESSAGE}", f"\n{MESSAGE}"])
def test_a_row_split_at_any_place_is_found_or_dropped(between):
    joined = 0
    for at in range(1, len(ROW)):
        log = read(with_row(lambda row, at=at: f"{row[:at]}{between}\n{row[at:]}"))
        assert [one for one in found(log) if one[0] != 2**24] == [
            one for one in WRITTEN.truth if one[0] != 2**24
        ]
        if len(log.rows) == 8:
            joined += 1
            assert found(log) == WRITTEN.truth
        else:
            assert len(log.rows) == 6
            # A head that was cut in the middle of a word is no row at all.
            assert len(log.dropped) == 1 or at < ROW.index("sum")
    assert joined > 0.6 * len(ROW)


def test_a_split_row_spans_its_lines():
    log = read(with_row(lambda row: f"{row[:60]}{MESSAGE}\n{MESSAGE}\n{row[60:]}"))
    (row,) = {(row.line, row.last_line) for row in log.rows if row.size_bytes == 2**24}
    first = WRITTEN.first_row + 2
    assert row == (first, first + 2)


def test_a_split_row_of_a_small_message_cannot_be_proved():
    written = write(Job(era="2022", sizes=(8, 16, 2**28)))
    line = written.lines[written.first_row]
    log = read(written.text.replace(line, f"{line[:60]}{MESSAGE}\n{line[60:]}"))
    assert {row.size_bytes for row in log.rows} == {16, 2**28}
    assert "no line after it completes it" in log.dropped[0].reason


def test_a_piece_that_does_not_fit_is_no_part_of_the_row():
    log = read(with_row(lambda row: f"{row[:60]}{MESSAGE}\n 12345.6 {row[68:]}"))
    assert len(log.rows) == 6
    assert len(log.dropped) == 1


def test_two_rows_on_one_line():
    lines = list(WRITTEN.lines)
    at = WRITTEN.first_row
    lines[at : at + 2] = [f"{lines[at]}   {lines[at + 1]}"]
    assert found(read("\n".join(lines))) == WRITTEN.truth


@pytest.mark.parametrize("width", [72, 80, 90, 100, 110])
def test_lines_wrapped_by_a_terminal_yield_nothing_wrong(width):
    wrapped = []
    for line in WRITTEN.lines:
        wrapped += [line[k : k + width] for k in range(0, len(line), width)] or [""]
    log = read("\n".join(wrapped))
    assert set(found(log)) <= set(WRITTEN.truth)
    assert log.lines + len(log.dropped) == len(WRITTEN.rows)


@pytest.mark.parametrize("seed", range(10))
def test_lines_out_of_order_stay_the_same_rows(seed):
    lines = list(WRITTEN.lines)
    part = lines[WRITTEN.first_row : WRITTEN.first_row + 4]
    random.Random(seed).shuffle(part)
    lines[WRITTEN.first_row : WRITTEN.first_row + 4] = part
    log = read("\n".join(lines))
    assert sorted(found(log)) == sorted(WRITTEN.truth)
    assert {row.run for row in log.rows} == {"0"}


def test_an_unknown_type_is_told():
    rows = "\n".join(row_line(JOB, row).replace("float", "fp4_e2m1") for row in WRITTEN.rows)
    log = read(rows, world_size=16)
    assert log.rows == ()
    assert [dropped.line for dropped in log.dropped] == [1, 2, 3, 4]
    assert "'fp4_e2m1' is no element type" in log.dropped[0].reason


@pytest.mark.parametrize(
    "line",
    [
        "vm-0:1:2 [0] NCCL INFO 24 16 nvls channels",
        "total 12 34 float in the pool",
        "12 34",
        "-1 0 0 0 0",
    ],
)
def test_lines_that_are_no_rows(line):
    lines = list(WRITTEN.lines)
    lines.insert(WRITTEN.first_row + 2, line)
    assert found(read("\n".join(lines))) == WRITTEN.truth
