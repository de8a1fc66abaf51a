"""What the allreduce models say they never undercut, they never undercut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.allreduce import AlphaBetaModel
from srifty.allreduce.base import FlooredAllreduce
from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, builtin_source
from srifty.catalog import builtin_instance_types
from srifty.core import AllreduceSample

TYPES = builtin_instance_types()
MEASURED = ("g4dn.12xlarge", "g4dn.xlarge", "p4d.24xlarge", "n1-standard-8+1xV100", "p5.48xlarge")
UNMEASURED = ("p3.8xlarge", "g5.12xlarge")


@pytest.fixture(scope="module")
def learned() -> LearnedModel:
    return LearnedModel(blend_of(builtin_source(), TYPES))


@st.composite
def worlds(draw):
    """A world, and ranks and VMs that it exceeds or equals."""
    per_vm = draw(st.integers(1, 16))
    vms = draw(st.integers(1, 300))
    world_size = draw(st.integers(vms, vms * per_vm))
    least_vms = draw(st.integers(1, vms))
    least = draw(st.integers(least_vms, world_size))
    return world_size, vms, least, least_vms, per_vm


def check(model, kind, world, sizes) -> None:
    assert isinstance(model, FlooredAllreduce)
    world_size, vms, least, least_vms, per_vm = (np.array([value]) for value in world)
    time_s = model.time_s(kind, world_size, vms, sizes)
    least_s = model.least_time_s(kind, least, least_vms, sizes, most_per_vm=int(per_vm[0]))
    assert (least_s >= 0).all()
    assert (least_s <= time_s).all()
    uncertainty = model.uncertainty(kind, world_size, vms, sizes)
    spread = np.hypot(uncertainty.allocation_fraction, uncertainty.model_fraction)
    assert model.least_spread(kind) <= spread[0] * (1 + 1e-12)


sizes_of = st.lists(st.floats(4.0, 2.0**35), min_size=1, max_size=4).map(np.array)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(MEASURED + UNMEASURED), worlds(), sizes_of)
def test_learned_times(learned, name, world, sizes):
    check(learned, TYPES[name], world, sizes)


@settings(max_examples=100, deadline=None)
@given(
    worlds(),
    sizes_of,
    st.lists(st.tuples(st.sampled_from([1, 2, 4, 9]), st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(0, 2**31),
)
def test_ring_times(world, sizes, measured, seed):
    rng = np.random.default_rng(seed)
    kind = TYPES["g4dn.12xlarge"]
    samples = [
        AllreduceSample(kind.name, v, v * g, size, rng.uniform(1e-5, 1e-2), transport="tcp")
        for v, g in measured
        if v * g > 1
        for size in (1_000, 1_000_000)
    ]
    check(AlphaBetaModel().fit(samples), kind, world, sizes)


@pytest.mark.parametrize("name", MEASURED)
def test_the_bound_of_a_world_among_equal_vms_is_close_to_its_time(learned, name):
    kind = TYPES[name]
    vms = np.array([2, 8, 40])
    sizes = np.array([1e6, 25e6])
    time_s = learned.time_s(kind, vms * kind.gpus, vms, sizes)
    least_s = learned.least_time_s(kind, vms * kind.gpus, vms, sizes, most_per_vm=kind.gpus)
    assert (least_s > 0.5 * time_s).all()
