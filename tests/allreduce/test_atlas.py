"""The atlas: what answers a question, in the stated order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srifty.allreduce.atlas import Atlas, Origin
from srifty.allreduce.table import SampleTable
from srifty.core.allreduce import Collective, CurveKey
from srifty.core.hardware import family_of
from tests.builders import make_type

from .worlds import sweep

KIND = "g4dn.12xlarge"
CURVE = CurveKey(Collective.ALL_REDUCE, KIND, "", "", "")


def atlas_of(*curves, types=()):
    samples = [sample for curve in curves for sample in curve]
    return Atlas.of(SampleTable.of(samples), {kind.name: kind for kind in types})


class TestBasis:
    def test_the_measured_world_then_between_worlds_then_beyond(self):
        atlas = atlas_of(sweep())
        assert atlas.basis(CURVE, 16, 4).origin is Origin.MEASURED
        assert atlas.basis(CURVE, 24, 6).origin is Origin.INSIDE
        assert atlas.basis(CURVE, 128, 32).origin is Origin.OUTSIDE
        assert atlas.basis(CURVE, 16, 8).origin is Origin.OUTSIDE  # 2 GPUs per VM: never seen

    def test_nvlink_worlds_say_nothing_of_the_network(self):
        atlas = atlas_of(sweep(worlds=((8, 1),)))
        basis = atlas.basis(CURVE, 8, 8)
        assert (basis.sheet, basis.origin) == (None, Origin.NOTHING)

    def test_another_curve_of_the_type_comes_before_a_relative(self):
        sibling = sweep(transport="efa")
        relative = sweep("g4dn.8xlarge")
        basis = atlas_of(relative, sibling).basis(CURVE, 16, 4)
        assert basis.origin is Origin.SIBLING
        assert basis.sheet.curve.transport == "efa"
        assert atlas_of(relative).basis(CURVE, 16, 4).origin is Origin.FAMILY

    def test_a_relative_with_another_gpu_does_not_count(self):
        relative = sweep("g4dn.8xlarge", gpu="A10G")
        own = make_type(KIND, gpu="T4")
        assert atlas_of(relative, types=[own]).basis(CURVE, 16, 4).origin is Origin.FIGURES

    def test_a_relative_answers_for_bytes_scaled_by_the_rated_speeds(self):
        types = [
            make_type(KIND, rated_gbit_per_s=50.0),
            make_type("g4dn.8xlarge", rated_gbit_per_s=25.0),
        ]
        basis = atlas_of(sweep("g4dn.8xlarge"), types=types).basis(CURVE, 16, 4)
        assert basis.size_factor == pytest.approx(0.5)


def test_sizes_far_from_the_measured_ones_are_probed_or_outside():
    atlas = atlas_of(sweep(), sweep(worlds=((128, 32),), sizes=[4096, 2**28]))
    sizes = np.array([2.0**28, 2.0**20, 2.0**33])
    basis = atlas.basis(CURVE, 128, 32)
    assert atlas.origins(basis, 128, 32, sizes).tolist() == [
        Origin.MEASURED,
        Origin.PROBED,
        Origin.OUTSIDE,
    ]


def test_transfers_side_by_side_show_what_the_network_moves_together():
    alone = sweep(worlds=((16, 4),), sizes=[2**24])
    pair = sweep(
        worlds=((16, 4),), sizes=[2**24], concurrent=2, law=lambda n, v, s: alone[0].time_s * 1.25
    )
    atlas = atlas_of(alone, pair)
    (gain,) = atlas.gains.values()
    assert gain == pytest.approx(1.6)


def test_the_spread_between_allocations_is_measured_where_there_are_three():
    noisy = sweep(noise=0.2, repeats=8, sizes=[2**22, 2**24])
    assert atlas_of(noisy).allocation_fraction == pytest.approx(0.2, rel=0.25)
    assert atlas_of(sweep(noise=0.2, repeats=2)).allocation_fraction == pytest.approx(0.10)


def with_factors(sample, factors):
    """The sample in several allocations, each slower by its factor."""
    return [replace(sample, run=f"a{k}", time_s=sample.time_s * f) for k, f in enumerate(factors)]


def test_a_slow_allocation_raises_the_mean_above_the_median():
    one = sweep(worlds=((16, 4),), sizes=[2**24])[0]
    slow = with_factors(one, (1, 1, 1, 1.8))
    # Repeats within an allocation are no allocations.
    slow += [replace(slow[0], run="a0/2"), replace(slow[0], run="a0/3")]
    atlas = atlas_of(slow)
    assert atlas.slow_vms == pytest.approx(0.2 / np.log(4))
    assert atlas.allocation_fraction == pytest.approx(np.log(1.8) / 2)
    assert atlas_of(slow[:2]).slow_vms == 0.0
    assert atlas_of(with_factors(one, (1, 1, 1, 0.5))).slow_vms == 0.0


def test_a_slow_allocation_that_ran_out_of_time_counts_all_the_same():
    small, large = sweep(worlds=((16, 4),), sizes=[2**18, 2**24])
    every = with_factors(small, (1, 1, 1, 1.8)) + with_factors(large, (1, 1, 1))
    assert atlas_of(every).slow_vms == pytest.approx(0.2 / np.log(4))
    # One that has no large message at all says nothing.
    tiny = sweep(worlds=((16, 4),), sizes=[2**12])[0]
    stopped = [*with_factors(large, (1, 1, 1)), replace(tiny, run="a3", time_s=9 * tiny.time_s)]
    assert atlas_of(stopped).slow_vms == 0.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("g4dn.12xlarge", "g4dn"),
        ("p3dn.24xlarge", "p3dn"),
        ("n1-standard-4+1xV100", "n1-standard"),
        ("Standard_ND40rs_v2", "Standard_ND40rs_v2"),
    ],
)
def test_families(name, expected):
    assert family_of(name) == expected
