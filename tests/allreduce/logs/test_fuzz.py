"""Damaged logs never fail the reader, and never yield a row that the text does not bear out."""

import random

import pytest

from srifty.allreduce.logs import read_log
from srifty.errors import InputError
from tests.allreduce.logs.mutations import damaged, self_made, violations
from tests.allreduce.logs.written_logs import Job, write

LOGS = self_made()


def test_the_second_opinion_agrees_on_sound_logs():
    for text in LOGS:
        log = read_log(text.encode(), name="log.txt")
        assert log.rows
        assert violations(text, log) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("  40.", "  90."), ("1048576 ", "2097152 "), ("[0x", "[1x")],
)
def test_the_second_opinion_sees_what_was_changed_afterwards(old, new):
    text = write(Job(era="2019", latency_us=40.0)).text
    log = read_log(text.encode(), name="log.txt")
    assert (violations(text.replace(old, new), log) == []) == (old == "[0x")


def test_the_second_opinion_sees_another_world():
    text = write(Job(era="2019", vms=2)).text
    log = read_log(write(Job(era="2019", vms=1)).text.encode(), name="log.txt")
    assert violations(text, log)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_logs(seed):
    draw = random.Random(seed)
    taken = 0
    for _ in range(250):
        text = damaged(draw, LOGS)
        try:
            log = read_log(text.encode(), name="log.txt")
        except InputError:
            continue
        assert violations(text, log) == []
        lines = text.count("\n") + 1
        assert all(1 <= dropped.line <= lines for dropped in log.dropped)
        taken += bool(log.rows)
    assert taken > 50  # the damage leaves enough to judge
