import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.simulator import lockstep
from srifty.simulator.sharing import line_seconds, share_paper, share_slots

SLOTS = [1, 2, 3, 16, None]
EXACT = 1e-9

positive = st.floats(1e-6, 1.0)
transfer = st.tuples(st.floats(0, 2.0), positive, st.floats(1.0, 1e9))


@settings(deadline=None, max_examples=200)
@given(st.lists(transfer, min_size=1, max_size=12), st.floats(1e3, 1e12))
def test_the_recurrence_of_one_slot_agrees_with_the_event_queue(transfers, capacity):
    ready, alone, work = (np.array(column) for column in zip(*transfers, strict=True))
    ends = lockstep.one_slot(ready[None], alone[None])
    exchange = share_slots(ready, alone, line_seconds(work, alone, capacity), 1)
    assert ends.end_s[0] == pytest.approx(exchange.last_end_s, rel=EXACT)


def random_rows(seed, *, rows=250, count=9, ties=False):
    """Rows of transfers from far apart to all at once, some of equal size, some of two sizes."""
    rng = np.random.default_rng(seed)
    sizes = 10 ** rng.uniform(3, 8, count)
    sizes[rng.integers(count, size=count // 2)] = sizes[0]
    spread = 10 ** rng.uniform(-3, 1, (rows, 1))
    ready = np.sort(rng.random((rows, count)), axis=1) * spread
    if ties:
        ready[:, 1::2] = ready[:, : 2 * (count // 2) : 2]
    work = sizes[None, :] * rng.uniform(1, 2, (rows, 1))
    line = 10 ** rng.uniform(8, 10, (rows, 1))
    alone = 10 ** rng.uniform(-5, -2, (rows, 1)) + work / line
    # From well below what single transfers reach to far above.
    capacity = line[:, 0] * 10 ** rng.uniform(-0.7, 0.7, rows)
    return ready, alone, work, capacity, sizes


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("slots", SLOTS)
def test_slots_agree_with_the_event_queue(slots, ties):
    ready, alone, work, capacity, _ = random_rows(1, ties=ties)
    line = line_seconds(work, alone, capacity[:, None])
    ends = lockstep.some_slots(ready, alone, line, slots)
    for r in range(len(ready)):
        exchange = share_slots(ready[r], alone[r], line[r], slots)
        assert ends.end_s[r] == pytest.approx(exchange.last_end_s, rel=EXACT)
        assert ends.last_busy_start_s[r] == pytest.approx(exchange.last_busy_start_s, rel=EXACT)


@pytest.mark.parametrize("ties", [False, True])
def test_one_slot_starts_its_last_busy_span_where_the_event_queue_does(ties):
    ready, alone, work, capacity, _ = random_rows(2, ties=ties)
    line = line_seconds(work, alone, capacity[:, None])
    ends = lockstep.one_slot(ready, alone)
    for r in range(len(ready)):
        exchange = share_slots(ready[r], alone[r], line[r], 1)
        assert ends.end_s[r] == pytest.approx(exchange.last_end_s, rel=EXACT)
        assert ends.last_busy_start_s[r] == pytest.approx(exchange.last_busy_start_s, rel=EXACT)


@pytest.mark.parametrize("slots", SLOTS)
def test_slots_take_unsorted_ready_times_in_the_order_of_issue(slots):
    ready, alone, work, capacity, _ = random_rows(3, rows=80)
    ready = np.random.default_rng(0).permuted(ready, axis=1)
    line = line_seconds(work, alone, capacity[:, None])
    ends = lockstep.some_slots(ready, alone, line, slots)
    for r in range(len(ready)):
        exchange = share_slots(ready[r], alone[r], line[r], slots)
        assert ends.end_s[r] == pytest.approx(exchange.last_end_s, rel=EXACT)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [1, 2, 9, 40])
def test_the_paper_s_rule_agrees_with_the_event_queue(count, ties):
    ready, alone, work, capacity, sizes = random_rows(4, rows=120, count=count, ties=ties)
    _, size_class = np.unique(sizes, return_inverse=True)
    ends = lockstep.paper_sharing(ready, alone, work, capacity, size_class)
    for r in range(len(ready)):
        exchange = share_paper(ready[r], alone[r], work[r], float(capacity[r]))
        assert ends.end_s[r] == pytest.approx(exchange.last_end_s, rel=EXACT)
        assert ends.last_busy_start_s[r] == pytest.approx(exchange.last_busy_start_s, rel=EXACT)


def test_the_paper_s_rule_with_equal_sizes_and_all_at_once():
    # 5 equal transfers, own rate 80 of 100: each moves at 20, all end together at 5 s.
    ready = np.zeros((1, 5))
    alone, work = np.full((1, 5), 1.25), np.full((1, 5), 100.0)
    ends = lockstep.paper_sharing(ready, alone, work, np.array([100.0]), np.zeros(5, dtype=int))
    assert ends.end_s[0] == pytest.approx(5.0, rel=1e-14)


# The hand-worked cases of test_sharing.py, all in one table.
def test_three_transfers_by_hand():
    ready = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    alone, line = np.array([[2.5] * 3, [3.0] * 3]), np.ones((2, 3))
    for slots, row, end in ((1, 0, 7.5), (2, 0, 5.5), (3, 1, 4.0), (16, 1, 4.0), (None, 1, 4.0)):
        ends = lockstep.some_slots(ready, alone, line, slots)
        assert ends.end_s[row] == pytest.approx(end, rel=1e-12)


def test_a_transfer_that_starts_as_another_ends_makes_no_pause():
    # 1 s each (no latency), the second ready at exactly 1 s, the third after a pause of 1 s.
    ready = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, 3.0]])
    alone, work = np.ones((2, 3)), np.full((2, 3), 64.0)
    capacity = np.array([64.0, 64.0])
    size_class = np.zeros(3, dtype=int)
    for ends in (
        lockstep.one_slot(ready, alone),
        lockstep.some_slots(ready, alone, alone, 1),
        lockstep.some_slots(ready, alone, alone, 2),
        lockstep.paper_sharing(ready, alone, work, capacity, size_class),
    ):
        assert ends.last_busy_start_s.tolist() == [0.0, 3.0]


@pytest.mark.parametrize("own", [50.0, 100.0, 200.0])
def test_a_lone_transfer_takes_exactly_its_time(own):
    ready, work, capacity = np.array([[0.25]]), np.array([[100.0]]), np.array([100.0])
    alone = work / own
    expected = 0.25 + 100 / own
    assert lockstep.one_slot(ready, alone).end_s[0] == expected
    for slots in SLOTS:
        line = line_seconds(work, alone, capacity[:, None])
        ends = lockstep.some_slots(ready, alone, line, slots)
        assert ends.end_s[0] == pytest.approx(expected, rel=1e-15)
    ends = lockstep.paper_sharing(ready, alone, work, capacity, np.array([0]))
    assert ends.end_s[0] == expected


def test_without_latency_all_rules_that_fill_the_line_end_together():
    # Only bandwidth decides and the line never idles: the number of slots cannot matter.
    rng = np.random.default_rng(9)
    work = rng.uniform(1, 100, (50, 7))
    ready = np.sort(rng.uniform(0, 0.01, (50, 7)), axis=1)
    ready[:, 0] = 0.0
    capacity = np.full(50, 100.0)
    alone = work / capacity[:, None]
    expected = work.sum(axis=1) / 100
    for slots in SLOTS:
        ends = lockstep.some_slots(ready, alone, alone, slots)
        assert ends.end_s == pytest.approx(expected, rel=1e-12)
    ends = lockstep.paper_sharing(ready, alone, work, capacity, np.arange(7))
    assert ends.end_s == pytest.approx(expected, rel=1e-12)


def test_arguments_are_left_alone():
    ready, alone, work, capacity, sizes = random_rows(6, rows=5)
    before = [part.copy() for part in (ready, alone, work, capacity)]
    _, size_class = np.unique(sizes, return_inverse=True)
    lockstep.one_slot(ready, alone)
    line = line_seconds(work, alone, capacity[:, None])
    lockstep.some_slots(ready, alone, line, 2)
    lockstep.paper_sharing(ready, alone, work, capacity, size_class)
    for now, then in zip((ready, alone, work, capacity), before, strict=True):
        assert (now == then).all()
