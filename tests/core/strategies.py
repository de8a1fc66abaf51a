"""Random cluster configurations, with the offers that they need."""

from __future__ import annotations

from hypothesis import strategies as st

from srifty.core import ClusterConfig, Market, VmGroup
from tests.builders import make_offer, make_type

GPUS = {"a1.small": 1, "p3.8xlarge": 4, "g3s.xlarge": 2, "lab-8": 8}
OFFERS = tuple(
    make_offer(make_type(name, gpus=gpus), market=market)
    for name, gpus in GPUS.items()
    for market in (Market.ON_DEMAND, Market.SPOT)
)


@st.composite
def vm_groups(draw):
    offer = draw(st.sampled_from(OFFERS))
    gpus_used = draw(st.integers(1, offer.instance_type.gpus))
    samples = draw(st.integers(gpus_used, 5000))
    accumulation = draw(st.integers(1, min(samples // gpus_used, 64)))
    return VmGroup(offer, draw(st.integers(1, 500)), samples, gpus_used, accumulation)


cluster_configs = st.lists(vm_groups(), min_size=1, max_size=5).map(
    lambda groups: ClusterConfig(tuple(groups))
)
