import numpy as np
import pytest

from srifty.simulator.sharing import (
    Exchange,
    capacity_for,
    line_seconds,
    progress_rates,
    share_paper,
    share_slots,
)
from tests.simulator import reference

# Hand-worked cases: bytes and bytes per second are small round numbers, so is every time.
CAPACITY = 100.0
CLOSE = 1e-12


def slots(ready, alone, line, k):
    return share_slots(np.array(ready), np.array(alone), np.array(line), k)


def paper(ready, alone, work):
    return share_paper(np.array(ready), np.array(alone), np.array(work), CAPACITY)


# Transfers of 1 s on the line and 1.5 s of latencies. Two of them in flight are half of their time
# at the line (Q = 0.5): R = 1 + 0.5 * 1 = 1.5, and 1.5 / (1.5 + 1.5) = 0.5. Each takes 3 s then.
HALF_AT_THE_LINE = ([0.0, 1.0, 1.0], [2.5, 2.5, 2.5], [1.0, 1.0, 1.0])


def first(case, count):
    return tuple(part[:count] for part in case)


def test_one_slot_by_hand():
    # One after the other: 0 → 2.5 → 5.0.
    exchange = slots(*first(HALF_AT_THE_LINE, 2), 1)
    assert exchange.start_s == pytest.approx([0.0, 2.5], rel=CLOSE)
    assert exchange.end_s == pytest.approx([2.5, 5.0], rel=CLOSE)


def test_two_transfers_in_two_slots_by_hand():
    # A alone until 1.0: 1/2.5 = 0.4 done. Both at 1/3 per second: A ends 1.0 + 3 * 0.6 = 2.8; B has
    # done 0.6, the rest alone: ends 2.8 + 2.5 * 0.4 = 3.8.
    exchange = slots(*first(HALF_AT_THE_LINE, 2), 2)
    assert exchange.start_s.tolist() == [0.0, 1.0]
    assert exchange.end_s == pytest.approx([2.8, 3.8], rel=CLOSE)


def test_three_transfers_in_two_slots_by_hand():
    # A and B as above. C is admitted when A ends, 2.8; B ends 2.8 + 3 * 0.4 = 4.0; C has done 0.4,
    # the rest alone: ends 4.0 + 2.5 * 0.6 = 5.5.
    exchange = slots(*HALF_AT_THE_LINE, 2)
    assert exchange.start_s == pytest.approx([0.0, 1.0, 2.8], rel=CLOSE)
    assert exchange.end_s == pytest.approx([2.8, 4.0, 5.5], rel=CLOSE)


@pytest.mark.parametrize("k", [3, 16, None])
def test_three_transfers_in_three_slots_by_hand(k):
    # With 2 s of latencies, three are half of their time at the line: R = 1 + 2 * 0.5 = 2 = A.
    exchange = slots([0.0, 0.0, 0.0], [3.0, 3.0, 3.0], [1.0, 1.0, 1.0], k)
    assert exchange.end_s == pytest.approx([4.0, 4.0, 4.0], rel=CLOSE)


def test_a_small_transfer_waits_behind_a_large_one():
    # The large one is always at the line (no latencies: Q = 1), 8 s for itself and what the small
    # one has there. The small one needs 4 s of the line, so it is at it for R = 4 + 1 * 8 = 12 s.
    alone, line = [8.0, 4.5], [8.0, 4.0]
    queue = 12 / 12.5
    exchange = slots([0.0, 0.0], alone, line, 2)
    large_s = 8 + queue * 4
    assert exchange.end_s[0] == pytest.approx(large_s, rel=CLOSE)
    assert exchange.end_s[1] == pytest.approx(large_s + 4.5 * (1 - large_s / 12.5), rel=CLOSE)


def test_many_transfers_hide_their_latencies_and_fill_the_line():
    for latency in (0.5, 5.0):
        count = 400
        alone, line = np.full(count, 1 + latency), np.ones(count)
        end = share_slots(np.zeros(count), alone, line, None).last_end_s
        assert count <= end < 1.05 * count


def test_slots_admit_in_the_order_of_issue():
    # Issue times are 0.5, 0.5 (not 0.0: it waits for the transfer before it), no latency.
    exchange = slots([0.5, 0.0], [1.0, 0.5], [1.0, 0.5], 1)
    assert exchange.start_s == pytest.approx([0.5, 1.5], rel=CLOSE)
    assert exchange.end_s == pytest.approx([1.5, 2.0], rel=CLOSE)


def test_paper_below_the_capacity_by_hand():
    # Own rates 100/2 = 50 and 40/2 = 20: together 70 ≤ 100, nobody is slowed.
    exchange = paper([0.0, 1.0], [2.0, 2.0], [100.0, 40.0])
    assert exchange.end_s.tolist() == [2.0, 3.0]


def test_two_paper_transfers_above_the_capacity_by_hand():
    # Own rates 80 and 50. From 0.25, 130 > 100: 50 each. A has 80 left at 0.25. B's 50 bytes take
    # 1 s: ends 1.25; A has moved 50, 30 left, alone at 80: ends 1.25 + 0.375 = 1.625.
    exchange = paper([0.0, 0.25], [1.25, 1.0], [100.0, 50.0])
    assert exchange.end_s == pytest.approx([1.625, 1.25], rel=1e-14)


def test_three_paper_transfers_above_the_capacity_by_hand():
    # Own rates 50, 20, 60. Until 1.0 A alone: 50 left. From 1.0 on 130 > 100: at most 100/3 each,
    # so A and C move at 33.3, B at its own 20 (what it leaves, nobody takes: the paper's rule is
    # not max-min fair). A ends at 1 + 1.5 = 2.5; B has 40 − 30 = 10 left, C 60 − 50 = 10.
    # Then 20 + 60 ≤ 100, own rates: C ends 2.5 + 1/6, B 2.5 + 0.5.
    exchange = paper([0.0, 1.0, 1.0], [2.0, 2.0, 1.0], [100.0, 40.0, 60.0])
    assert exchange.end_s == pytest.approx([2.5, 3.0, 2.5 + 1 / 6], rel=1e-14)


def test_at_exactly_the_capacity_nobody_is_slowed():
    # 60 + 40 = 100: `b_agg ≤ b_cap` holds.
    exchange = paper([0.0, 0.0], [1.0, 2.0], [60.0, 80.0])
    assert exchange.end_s.tolist() == [1.0, 2.0]


LONE = {
    "own bandwidth below the capacity": (1.5, 100.0),
    "at it": (1.0, 100.0),
    "above it": (0.5, 100.0),
}


@pytest.mark.parametrize("case", LONE, ids=list(LONE))
@pytest.mark.parametrize("k", [1, 2, 3, None, "paper"])
def test_a_lone_transfer_takes_exactly_its_time(case, k):
    alone, work = LONE[case]
    if k == "paper":
        exchange = paper([0.25], [alone], [work])
    else:
        line = line_seconds(np.array([work]), np.array([alone]), CAPACITY)
        exchange = slots([0.25], [alone], line, k)
    assert exchange.start_s.tolist() == [0.25]
    assert exchange.end_s == pytest.approx([0.25 + alone], rel=1e-15)


def test_the_capacity_is_raised_to_what_one_transfer_gets():
    work, alone = np.array([100.0, 10.0]), np.array([0.5, 1.0])
    assert capacity_for(work, alone, 100.0) == 200.0
    assert capacity_for(work, alone, 300.0) == 300.0


def test_a_transfer_measured_above_the_line_does_not_widen_it_for_the_others():
    # Alone the first two take 0.25 s each, at four times the line's rate: they count as 0.25 s of
    # it. All three are always at the line: 0.25 + 0.25 + 1.0 s.
    alone = np.array([0.25, 0.25, 1.0])
    line = line_seconds(np.full(3, 100.0), alone, CAPACITY)
    assert line.tolist() == [0.25, 0.25, 1.0]
    assert slots(np.zeros(3), alone, line, None).end_s == pytest.approx([1.5] * 3, rel=CLOSE)


def test_last_busy_span_by_hand():
    start, end = np.array([0.0, 0.5, 4.0, 4.5]), np.array([2.0, 1.0, 5.0, 6.0])
    assert Exchange(start, end).last_busy_start_s == 4.0
    # A transfer that starts as the one before ends leaves no pause.
    assert Exchange(np.array([0.0, 2.0]), np.array([2.0, 3.0])).last_busy_start_s == 0.0
    # A long transfer bridges what looks like a pause between its neighbours.
    assert Exchange(np.array([0.0, 1.0, 3.0]), np.array([9.0, 2.0, 4.0])).last_busy_start_s == 0.0
    assert Exchange(start, end).last_end_s == 6.0


@pytest.mark.parametrize("k", [1, 2, 3, 16, None, "paper"])
def test_agrees_with_the_reference_in_the_tests(k):
    rng = np.random.default_rng(11)
    for _ in range(60):
        count = int(rng.integers(1, 9))
        ready = np.sort(rng.random(count))
        work = 10 ** rng.uniform(0, 2, count)
        alone = rng.uniform(0, 0.5, count) + work / 120
        if k == "paper":
            ends = share_paper(ready, alone, work, CAPACITY).last_end_s
            expected = reference.paper_end(ready.tolist(), alone.tolist(), work.tolist(), CAPACITY)
        else:
            line = line_seconds(work, alone, CAPACITY)
            ends = share_slots(ready, alone, line, k).last_end_s
            expected = reference.slots_end(ready.tolist(), alone.tolist(), line.tolist(), k)
        assert ends == pytest.approx(expected, rel=1e-12)


def test_no_byte_is_lost_or_moved_faster_than_the_line():
    rng = np.random.default_rng(5)
    for k in (1, 2, 5, None):
        ready = np.sort(rng.random(12))
        work = rng.uniform(1, 50, 12)
        alone = 0.05 + work / CAPACITY
        exchange = share_slots(ready, alone, work / CAPACITY, k)
        assert (exchange.end_s - exchange.start_s >= alone - 1e-12).all()
        assert (exchange.start_s >= ready).all()
        assert exchange.last_end_s - ready[0] >= work.sum() / CAPACITY - 1e-12
        if k is not None:
            for at in exchange.start_s:
                running = (exchange.start_s <= at) & (at < exchange.end_s)
                assert running.sum() <= k


def test_the_line_is_never_used_more_than_all_the_time():
    rng = np.random.default_rng(7)
    wait = 10 ** rng.uniform(-6, 2, (12, 3000)) * (rng.random((12, 3000)) > 0.1)
    line = 10 ** rng.uniform(-6, 2, (12, 3000))
    busy = (progress_rates(wait, line) * line).sum(axis=0)
    assert (busy <= 1 + 1e-9).all()
    assert (busy >= (line / (wait + line)).max(axis=0) / 12).all()


def test_progress_solves_what_it_says():
    rng = np.random.default_rng(8)
    wait, line = 10 ** rng.uniform(-4, 1, (2, 6, 500))
    took = 1 / progress_rates(wait, line)
    at_line = took - wait
    queue = at_line / took
    assert at_line == pytest.approx(line + (queue * line).sum(axis=0) - queue * line, rel=1e-10)
