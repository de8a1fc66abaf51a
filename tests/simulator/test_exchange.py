"""What mixed instance types make of the allreduce times; the rest is in `test_iteration`."""

import numpy as np
import pytest

from srifty.simulator.exchange import UNEQUAL_RING, ExchangeTimes
from srifty.simulator.tables import ConfigTable
from tests.builders import LinearAllreduce, Link, make_config, make_offer, make_type

SLOW, FAST, LIKE_SLOW = (make_offer(make_type(name)) for name in ("a.slow", "a.fast", "a.like"))
MODEL = LinearAllreduce(
    links={
        "a.slow": Link(alpha_s=0.5, beta=1e6),
        "a.fast": Link(alpha_s=0.1, beta=4e6),
        "a.like": Link(alpha_s=0.5, beta=1e6),
    }
)
SIZES = np.array([1e6, 4e6])


def times(*groups):
    table = ConfigTable.from_configs([make_config(*groups)])
    return ExchangeTimes.of(MODEL, table, SIZES)


def test_a_ring_over_unequal_links_is_slower_than_its_slowest_link_but_waits_no_longer():
    alone, mixed = times((SLOW, 4, 1)), times((SLOW, 3, 1), (FAST, 1, 1))
    assert alone.alone_s[0].tolist() == [1.5, 4.5]
    # The latency of 0.5 s stays; what bytes take grows.
    assert mixed.alone_s[0] == pytest.approx([0.5 + 1 / UNEQUAL_RING, 0.5 + 4 / UNEQUAL_RING])
    assert mixed.capacity[0] == pytest.approx(UNEQUAL_RING * alone.capacity[0])


@pytest.mark.parametrize(
    "groups",
    [((SLOW, 1, 1), (FAST, 1, 1)), ((SLOW, 2, 1), (LIKE_SLOW, 2, 1))],
    ids=["two ranks", "types of one speed"],
)
def test_others_keep_the_slowest_links_pace(groups):
    n = sum(count for _, count, _ in groups)
    found, alone = times(*groups), times((SLOW, n, 1))
    assert found.alone_s.tolist() == alone.alone_s.tolist()
    assert found.capacity.tolist() == alone.capacity.tolist()
