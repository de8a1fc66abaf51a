"""A slower or faster network: between VMs alone, and with a floor that still holds."""

import numpy as np
import pytest

from srifty.allreduce import AlphaBetaModel
from srifty.catalog import builtin_instance_types
from srifty.simulator.perturbed import ScaledNetwork

KIND = builtin_instance_types()["g4dn.12xlarge"]
SIZES = np.array([4e3, 1e6, 3e8])
# On one VM, and on several.
RANKS, VMS = np.array([2, 4, 8, 8, 64]), np.array([1, 1, 2, 8, 16])


@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0])
def test_what_lies_inside_a_vm_stays_as_it_is(factor):
    before = AlphaBetaModel()
    after = ScaledNetwork(before, factor)
    expected = np.where(VMS > 1, factor, 1.0)
    times = after.time_s(KIND, RANKS, VMS, SIZES) / before.time_s(KIND, RANKS, VMS, SIZES)
    assert times == pytest.approx(np.repeat(expected[:, None], len(SIZES), axis=1))
    rates = before.bus_capacity(KIND, RANKS, VMS) / after.bus_capacity(KIND, RANKS, VMS)
    assert rates == pytest.approx(expected)


@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0])
def test_no_larger_world_undercuts_the_floor(factor):
    model = ScaledNetwork(AlphaBetaModel(), factor)
    times = model.time_s(KIND, RANKS, VMS, SIZES)
    for least in range(len(RANKS)):
        ranks, vms = RANKS[[least]], VMS[[least]]
        floor = model.least_time_s(KIND, ranks, vms, SIZES, most_per_vm=4)
        larger = (ranks <= RANKS) & (vms <= VMS)
        assert (times[larger] >= floor * (1 - 1e-12)).all()


def test_what_it_rests_on_is_said():
    before = AlphaBetaModel().assumptions([KIND])
    assert ScaledNetwork(AlphaBetaModel(), 2.0).assumptions([KIND]) == before
    said = ScaledNetwork(AlphaBetaModel(), 2.0, "Twice as slow.").assumptions([KIND])
    assert said == (*before, "Twice as slow.")
