import numpy as np
import pytest

from srifty.simulator.sharing import Exchange, capacity_for, share_paper, share_slots
from tests.simulator import reference

# Hand-worked cases: bytes and bytes per second are small round numbers, so is every time.
CAPACITY = 100.0


def slots(ready, alone, work, k):
    return share_slots(np.array(ready), np.array(alone), np.array(work), CAPACITY, k)


def paper(ready, alone, work):
    return share_paper(np.array(ready), np.array(alone), np.array(work), CAPACITY)


# Two or three transfers of 100 bytes, T = 1.5 s: start-up latency α = 1.5 − 100/100 = 0.5 s.
ALPHA_HALF = ([0.0, 0.25, 0.25], [1.5, 1.5, 1.5], [100.0, 100.0, 100.0])


def first(case, count):
    return tuple(part[:count] for part in case)


def test_one_slot_by_hand():
    # One after the other: 0 → 1.5 → 3.0.
    exchange = slots(*first(ALPHA_HALF, 2), 1)
    assert exchange.start_s.tolist() == [0.0, 1.5]
    assert exchange.end_s.tolist() == [1.5, 3.0]


def test_two_transfers_in_two_slots_by_hand():
    # A: latency until 0.50, alone until B's latency ends at 0.75: 25 bytes through, 75 left.
    # Both at 50 B/s: A ends 0.75 + 75/50 = 2.25; B has moved 75, 25 left.
    # B alone at 100 B/s: ends 2.25 + 0.25 = 2.50.
    exchange = slots(*first(ALPHA_HALF, 2), 2)
    assert exchange.start_s.tolist() == [0.0, 0.25]
    assert exchange.end_s.tolist() == [2.25, 2.5]


def test_three_transfers_in_two_slots_by_hand():
    # A and B as above. C is admitted when A ends, 2.25; its latency lasts until 2.75, when B has
    # been through since 2.50; alone 1 s: ends 3.75.
    exchange = slots(*ALPHA_HALF, 2)
    assert exchange.start_s.tolist() == [0.0, 0.25, 2.25]
    assert exchange.end_s.tolist() == [2.25, 2.5, 3.75]


@pytest.mark.parametrize("k", [3, 16, None])
def test_three_transfers_in_three_slots_by_hand(k):
    # From 0.75 on three share: 100/3 B/s each. A's 75 bytes: 2.25 s, ends 3.0. B and C have moved
    # 75 each, 25 left, 50 B/s each: end 3.5.
    exchange = slots(*ALPHA_HALF, k)
    assert exchange.start_s.tolist() == [0.0, 0.25, 0.25]
    assert exchange.end_s == pytest.approx([3.0, 3.5, 3.5], rel=1e-14)


def test_latencies_overlap_while_the_line_is_below_its_capacity():
    # A moves during [0.5, 1.5] only; B is in its latency during [1.0, 1.5]: nobody shares.
    exchange = slots([0.0, 1.0], [1.5, 1.5], [100.0, 100.0], 2)
    assert exchange.end_s.tolist() == [1.5, 2.5]


def test_slots_admit_in_the_order_of_issue():
    # Issue times are 0.5, 0.5 (not 0.0: it waits for the transfer before it), no latency.
    exchange = slots([0.5, 0.0], [1.0, 0.5], [100.0, 50.0], 1)
    assert exchange.start_s.tolist() == [0.5, 1.5]
    assert exchange.end_s.tolist() == [1.5, 2.0]


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
    exchange = paper([0.25], [alone], [work]) if k == "paper" else slots([0.25], [alone], [work], k)
    assert exchange.start_s.tolist() == [0.25]
    assert exchange.end_s.tolist() == [0.25 + alone]


def test_the_capacity_is_raised_to_what_one_transfer_gets():
    work, alone = np.array([100.0, 10.0]), np.array([0.5, 1.0])
    assert capacity_for(work, alone, 100.0) == 200.0
    assert capacity_for(work, alone, 300.0) == 300.0


def test_a_transfer_measured_above_the_line_does_not_widen_it_for_the_others():
    # Alone the first two take 0.25 s each, at four times the line's rate: they count as 25 bytes.
    # All three start at once and share: 25 bytes each by 0.75 s; the third's other 75 take 0.75 s.
    exchange = slots([0.0, 0.0, 0.0], [0.25, 0.25, 1.0], [100.0, 100.0, 100.0], None)
    assert exchange.end_s == pytest.approx([0.75, 0.75, 1.5], rel=1e-14)


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
            ends = share_slots(ready, alone, work, CAPACITY, k).last_end_s
            expected = reference.slots_end(
                ready.tolist(), alone.tolist(), work.tolist(), CAPACITY, k
            )
        assert ends == pytest.approx(expected, rel=1e-12)


def test_no_byte_is_lost_or_moved_faster_than_the_line():
    rng = np.random.default_rng(5)
    for k in (1, 2, 5, None):
        ready = np.sort(rng.random(12))
        work = rng.uniform(1, 50, 12)
        alone = 0.05 + work / CAPACITY
        exchange = share_slots(ready, alone, work, CAPACITY, k)
        assert (exchange.end_s - exchange.start_s >= alone - 1e-12).all()
        assert (exchange.start_s >= ready).all()
        assert exchange.last_end_s - ready[0] >= work.sum() / CAPACITY - 1e-12
        if k is not None:
            for at in exchange.start_s:
                running = (exchange.start_s <= at) & (at < exchange.end_s)
                assert running.sum() <= k
