"""The model of plans: measured curves first, then relatives, then network figures."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from srifty.allreduce.alpha_beta import AlphaBetaModel
from srifty.allreduce.blend import Blend
from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.recipe import Recipe
from srifty.allreduce.samples import builtin_samples
from srifty.allreduce.table import SampleTable
from srifty.catalog import builtin_instance_types
from srifty.core.allreduce import AllreduceSample
from tests.builders import make_type

from .worlds import ring_time_s, sweep

KIND = make_type("g4dn.12xlarge", gpu="T4", gpus=4, rated_gbit_per_s=50.0)
SMALLER = make_type("g4dn.8xlarge", gpu="T4", gpus=4, rated_gbit_per_s=25.0)
SIZES = np.array([1e3, 1e6, 25e6, 100e6])


def model_of(*curves, types=(KIND, SMALLER), **options):
    table = SampleTable.of([sample for curve in curves for sample in curve])
    known = {kind.name: kind for kind in types}
    return LearnedModel(Blend(known, recipe=Recipe(), trees=False).fit(table), **options)


def times(model, kind, world_size, vms, sizes=SIZES):
    return model.time_s(kind, np.array([world_size]), np.array([vms]), sizes)[0]


def test_measured_worlds_are_answered_as_measured():
    model = model_of(sweep())
    for n, v in ((8, 2), (24, 6), (64, 16)):
        assert times(model, KIND, n, v) == pytest.approx(ring_time_s(n, v, SIZES), rel=0.06)


def test_a_world_of_one_takes_no_time():
    assert times(model_of(sweep()), KIND, 1, 1).tolist() == [0, 0, 0, 0]


def test_many_worlds_at_once_are_answered_as_one_by_one():
    model = model_of(sweep(), sweep(worlds=((2, 1), (4, 1))))
    n, v = np.array([1, 4, 8, 8, 64, 12]), np.array([1, 1, 2, 2, 16, 3])
    together = model.time_s(KIND, n, v, SIZES)
    alone = [times(model, KIND, int(a), int(b)) for a, b in zip(n, v, strict=True)]
    assert together == pytest.approx(np.array(alone))


def test_links_inside_a_vm_never_answer_for_links_between_vms():
    nvlink = sweep(worlds=((4, 1),), law=lambda n, v, s: 1e-6 + s / 1e11)
    model = model_of(nvlink)
    figures = AlphaBetaModel()
    assert times(model, KIND, 4, 4) == pytest.approx(times(figures, KIND, 4, 4), rel=0.1)
    assert times(model, KIND, 4, 1) == pytest.approx(1e-6 + SIZES / 1e11, rel=0.05)
    assert times(model, KIND, 4, 4)[-1] > 10 * times(model, KIND, 4, 1)[-1]


def test_a_relative_stands_in_with_the_bytes_of_the_rated_speeds():
    model = model_of(sweep("g4dn.8xlarge"))
    assert times(model, KIND, 16, 4) == pytest.approx(ring_time_s(16, 4, SIZES / 2), rel=0.06)
    (sentence, *_) = model.assumptions([KIND])
    assert "not measured; as on g4dn.8xlarge" in sentence
    spread = model.uncertainty(KIND, np.array([16]), np.array([4]), SIZES)
    assert spread.model_fraction[0] >= 0.3


def test_what_nobody_measured_is_answered_from_the_data_sheet():
    model = model_of(sweep("p9.x"))
    assert times(model, KIND, 16, 4) == pytest.approx(times(AlphaBetaModel(), KIND, 16, 4))
    assert "50% of the rated" in model.assumptions([KIND])[0]
    assert model.warnings(KIND, 16, 4, SIZES) == ()


class TestTransports:
    FAST = staticmethod(lambda n, v, s: ring_time_s(n, v, s, beta=8e9))

    def model(self, **options):
        return model_of(
            sweep(transport="tcp-socket"), sweep(transport="efa", law=self.FAST), **options
        )

    def test_the_slower_counts_where_the_run_s_is_unknown(self):
        assert times(self.model(), KIND, 16, 4) == pytest.approx(
            ring_time_s(16, 4, SIZES), rel=0.06
        )

    def test_the_run_s_own_counts(self):
        assert times(self.model(efa=True), KIND, 16, 4) == pytest.approx(
            self.FAST(16, 4, SIZES), rel=0.06
        )
        assert times(self.model(efa=False), KIND, 16, 4) == pytest.approx(
            ring_time_s(16, 4, SIZES), rel=0.06
        )

    def test_without_the_fabric_its_samples_do_not_count(self):
        model = model_of(sweep(transport="efa"), efa=False)
        assert times(model, KIND, 16, 4) == pytest.approx(times(AlphaBetaModel(), KIND, 16, 4))


class TestVersions:
    """A new library can be half as fast: which one the run uses decides."""

    SLOW = staticmethod(lambda n, v, s: 2.3 * ring_time_s(n, v, s))

    def model(self, **options):
        return model_of(
            sweep(library_version="2.18.5"),
            sweep(library_version="2.20.5", law=self.SLOW),
            **options,
        )

    def test_unknown_the_slower_counts_and_the_mixture_is_told(self):
        model = self.model()
        assert times(model, KIND, 16, 4) == pytest.approx(self.SLOW(16, 4, SIZES), rel=0.06)
        assert any("2.18.5 and NCCL 2.20.5" in s for s in model.assumptions([KIND]))

    def test_the_run_s_own_version_counts(self):
        model = self.model(library_version="2.18.5")
        assert times(model, KIND, 16, 4) == pytest.approx(ring_time_s(16, 4, SIZES), rel=0.06)
        assert not any("2.20.5" in s for s in model.assumptions([KIND]))

    def test_another_version_than_the_measured_ones_is_told(self):
        model = self.model(library_version="2.30.1")
        assert any("the run will use NCCL 2.30.1" in s for s in model.assumptions([KIND]))


def test_of_two_curves_the_one_measured_nearer_counts():
    near = sweep(worlds=((64, 16),), config="a", law=lambda n, v, s: ring_time_s(n, v, s) / 2)
    far = sweep(worlds=((8, 2),), config="b")
    model = model_of(near, far)
    assert times(model, KIND, 64, 16) == pytest.approx(ring_time_s(64, 16, SIZES) / 2, rel=0.06)


class TestBeyondTheMeasuredSizes:
    def test_large_messages_go_on_at_the_measured_bandwidth(self):
        model = model_of(sweep())
        big = np.array([2.0**30])
        assert times(model, KIND, 16, 4, big) == pytest.approx(ring_time_s(16, 4, big), rel=0.08)

    def test_small_messages_alone_say_nothing_of_bandwidth(self):
        model = model_of(sweep(sizes=[4, 64, 1024, 4096]))
        expected = 2 * (15 / 16) * 100e6 / (0.5 * 50e9 / 8)
        assert times(model, KIND, 16, 4)[-1] == pytest.approx(expected, rel=0.1)

    def test_large_messages_alone_leave_a_usual_latency_and_a_warning(self):
        sizes = [100_000_000 + 1_000_000 * i for i in range(10)]
        model = model_of(sweep(sizes=sizes, worlds=((3, 3),), noise=0.2))
        small = np.array([4096.0])
        assert 10e-6 < times(model, KIND, 3, 3, small)[0] < 1e-3
        (sentence,) = model.warnings(KIND, 3, 3, np.array([1e6]))
        assert "outside what was measured (95.4 MiB to 104 MiB)" in sentence
        assert model.warnings(KIND, 3, 3, np.array([102e6])) == ()
        spread = model.uncertainty(KIND, np.array([3]), np.array([3]), small)
        assert spread.model_fraction[0] >= 0.3
        inside = model.uncertainty(KIND, np.array([3]), np.array([3]), np.array([102e6]))
        assert inside.model_fraction[0] >= 0.12


def test_worlds_beyond_the_measured_ones_are_warned_of_and_doubted():
    model = model_of(sweep())
    assert any("256 GPUs on 64 VMs lie outside" in s for s in model.warnings(KIND, 256, 64, SIZES))
    assert model.warnings(KIND, 24, 6, SIZES) == ()
    spread = model.uncertainty(KIND, np.array([24, 256]), np.array([6, 64]), SIZES)
    assert spread.model_fraction[1] > spread.model_fraction[0]


def test_capacity_is_the_plateau_and_what_side_by_side_transfers_reach():
    model = model_of(sweep())
    assert model.bus_capacity(KIND, np.array([16]), np.array([4])) == pytest.approx(2e9, rel=0.05)
    pair = sweep(
        worlds=((16, 4),),
        sizes=[2**22, 2**24],
        concurrent=2,
        law=lambda n, v, s: 1.25 * ring_time_s(n, v, s),
    )
    both = model_of(sweep(sizes=[2**22, 2**24, 2**26, 2**28]), pair)
    assert both.bus_capacity(KIND, np.array([16]), np.array([4])) == pytest.approx(3.2e9, rel=0.05)


@pytest.mark.parametrize("rated", [100.0, 12.0])
def test_capacity_is_what_more_bytes_take_where_latency_still_weighs(rated):
    # Half a second of latency, 2e9 bus bytes per second: even 64 MiB mostly wait, so that their
    # own bandwidth says little of what transfers side by side would reach.
    model = model_of(
        sweep(
            worlds=((16, 4),),
            sizes=[2**20, 2**22, 2**24, 2**26],
            law=lambda n, v, s: 0.5 + 2 * s * (n - 1) / n / 2e9,
        )
    )
    kind = replace(KIND, rated_gbit_per_s=rated)
    found = model.bus_capacity(kind, np.array([16]), np.array([4]))[0]
    # The link is not believed to carry more than it is rated for.
    assert found == pytest.approx(min(2e9, rated * 1e9 / 8), rel=0.2)


def test_newer_samples_replace_older_ones_by_degrees():
    now = datetime(2026, 5, 1, tzinfo=UTC)
    old = [replace(s, measured_at=now - timedelta(days=720)) for s in sweep()]
    new = [replace(s, measured_at=now, time_s=s.time_s * 2, run="new") for s in sweep()]
    model = model_of(old, new)
    assert times(model, KIND, 16, 4) == pytest.approx(2 * ring_time_s(16, 4, SIZES), rel=0.06)


@pytest.mark.parametrize("kind", builtin_instance_types().values(), ids=lambda kind: kind.name)
def test_every_type_of_the_catalog_gets_sane_times_from_the_built_in_samples(kind, builtin_model):
    n = np.array([2, 16, 64, 256]) * kind.gpus
    vms = np.array([2, 16, 64, 256])
    sizes = 2.0 ** np.arange(2, 33)
    time_s = builtin_model.time_s(kind, n, vms, sizes)
    assert np.isfinite(time_s).all()
    assert (time_s > 5e-6).all()
    bus = 2 * (n - 1)[:, None] / n[:, None] * sizes / time_s
    assert (bus < 2.5 * kind.rated_gbit_per_s / 8 * 1e9).all()
    assert (np.diff(time_s[:, sizes >= 2**25], axis=1) > 0).all()
    assert builtin_model.assumptions([kind])


@pytest.fixture(scope="module")
def builtin_model():
    types = builtin_instance_types()
    blend = Blend(types, recipe=Recipe(), trees=False).fit(SampleTable.of(builtin_samples()))
    return LearnedModel(blend)


def test_one_sample_is_enough_for_a_model():
    model = model_of([AllreduceSample(KIND.name, 2, 8, 2**25, 0.02)])
    assert times(model, KIND, 8, 2, np.array([2.0**25])) == pytest.approx(0.02, rel=0.1)


def test_messages_beyond_the_table_go_on_with_the_bytes():
    model = model_of(sweep())
    huge = np.array([2.0**34, 2.0**38])
    first, second = times(model, KIND, 16, 4, huge)
    assert first == pytest.approx(ring_time_s(16, 4, huge[0]), rel=0.1)
    assert second == pytest.approx(16 * first, rel=0.01)


def test_each_size_is_answered_by_the_nearest_curve_that_measured_it():
    """A curve of large messages alone must not answer for small ones that another one measured."""
    whole = sweep(worlds=((8, 2),), config="whole")
    large = sweep(worlds=((8, 2), (16, 4)), sizes=[2**25, 2**28], config="large")
    model = model_of(whole, large)
    small = np.array([1024.0])
    assert times(model, KIND, 12, 3, small)[0] < 2 * ring_time_s(12, 3, 1024)


def test_nvlink_that_was_not_measured_is_taken_from_the_same_gpu_model():
    fast = sweep("lab.a", ((4, 1),), law=lambda n, v, s: s / 2e11, gpu="A100-40GB",
                 transport="nvlink")  # fmt: skip
    slow = sweep("lab.v", ((4, 1),), law=lambda n, v, s: s / 5e10, gpu="V100", transport="nvlink")
    kind = make_type("p4de.24xlarge", gpu="A100-80GB", gpus=8, nvlink=True)
    model = model_of(fast, slow, types=(kind,))
    capacity = model.bus_capacity(kind, np.array([8]), np.array([1]))[0]
    assert capacity == pytest.approx(1.5 * 2e11, rel=0.1)
    assert "NVLink as on lab.a" in " ".join(model.assumptions([kind]))


def test_measurements_among_cpus_are_warned_of_for_gpus():
    model = model_of(sweep(gpu="cpu", library_version="gloo torch-2.13.0"))
    (sentence,) = model.warnings(KIND, 16, 4, SIZES)
    assert "among processes on CPUs" in sentence
