from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.catalog.billing import VmUsage
from srifty.control.bill import PaidPrice, RentedVm, bill_of
from srifty.core import Market

WHOLE_S = st.integers(0, 200)


@given(
    prices=st.lists(st.tuples(WHOLE_S, st.integers(1, 50)), min_size=1, max_size=6),
    running_s=WHOLE_S,
    ran_s=st.integers(60, 200),
    looked_s=st.integers(0, 500),
)
def test_each_second_is_paid_at_the_price_that_held(prices, running_s, ran_s, looked_s):
    """Compared with a sum over seconds; the first price holds before it was noted, too."""
    noted = [
        PaidPrice(float(at), float(usd)) for at, usd in sorted(prices, key=lambda each: each[0])
    ]
    usage = VmUsage("vm-1", Market.ON_DEMAND, noted[0].usd_per_hour, float(running_s))
    stopped = VmUsage(
        "vm-1", Market.ON_DEMAND, noted[0].usd_per_hour, float(running_s), float(running_s + ran_s)
    )

    def paid(until: int) -> float:
        total = 0.0
        for second in range(running_s, until):
            past = [price for price in noted if price.since_s <= second]
            total += (past[-1] if past else noted[0]).usd_per_hour / 3600
        return total

    bill = bill_of([RentedVm(stopped, "aws", "2026-11-30", tuple(noted))], [], 1e6)
    assert bill.usd == pytest.approx(paid(running_s + ran_s))
    assert bill.usd_per_hour == 0
    if looked_s >= running_s + 60:
        bill = bill_of([RentedVm(usage, "aws", "2026-11-30", tuple(noted))], [], float(looked_s))
        assert bill.usd == pytest.approx(paid(looked_s))
        assert bill.usd_per_hour in {price.usd_per_hour for price in noted}
