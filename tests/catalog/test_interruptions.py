import math

import pytest

from srifty.catalog import builtin_interruptions, interruption_notes, resolve
from srifty.catalog.interruptions import interruption_rate
from srifty.core import Market
from srifty.core.interruptions import NEVER, InterruptionRate
from srifty.core.supply import InterruptionEntry, QuotaEntry, SupplyRequest
from srifty.errors import InputError

BOTH = (Market.ON_DEMAND, Market.SPOT)


def request(*interruptions):
    return SupplyRequest(
        "aws",
        "us-east-1",
        BOTH,
        (QuotaEntry("g4dn.xlarge", None, 4),),
        interruptions=interruptions,
    )


@pytest.mark.parametrize("key", list(builtin_interruptions()))
def test_a_bucket_is_a_rate_whose_daily_share_lies_in_it(key):
    bucket = builtin_interruptions()[key]
    rate = interruption_rate(*key)
    share = 1 - math.exp(-24 * rate.per_hour)
    assert bucket.low < share < (1 if bucket.high is None else bucket.high)
    assert bucket.date in rate.source
    # An order of magnitude either way: nobody tells how long those VMs ran.
    low, high = rate.range_per_hour
    assert 10 < high / low < 20


def test_what_is_not_known_counts_as_the_highest_bucket():
    assert interruption_rate("gcp", "a2-highgpu-1g", "us-central1") == InterruptionRate(
        -math.log(0.75) / 24, 1.0, "not known; taken as AWS's highest bucket (above 20 %)"
    )


def test_only_spot_vms_are_taken_back():
    for offer in resolve(request()).offers:
        expected = NEVER
        if offer.market is Market.SPOT:
            expected = interruption_rate("aws", "g4dn.xlarge", "us-east-1")
        assert offer.interruptions == expected


def test_the_users_word_counts_first():
    stated = InterruptionRate(0.05, 0.0, "stated in the job")
    offers = resolve(request(InterruptionEntry("g4dn.xlarge", stated))).offers
    spot = [offer for offer in offers if offer.market is Market.SPOT]
    assert {offer.interruptions for offer in spot} == {stated}
    (note,) = interruption_notes(spot)
    assert note == (
        "g4dn.xlarge (spot) is taken back 0.05 times per VM-hour: every 20 h 00 min (stated in the "
        "job)."
    )
    with pytest.raises(InputError, match=r"offers.interruptions.g4dn.xlarg: unknown"):
        resolve(request(InterruptionEntry("g4dn.xlarg", stated)))
