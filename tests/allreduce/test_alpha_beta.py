from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.allreduce import AlphaBetaModel, builtin_samples
from srifty.core import AllreduceSample
from tests.builders import make_type

KIND = make_type("q1.x", "A", gpus=8)
# (ranks, VMs)
WORLDS = [(4, 1), (8, 1), (2, 2), (4, 4), (16, 2), (32, 4), (64, 8)]
SIZES = [2**exponent for exponent in range(10, 29, 3)]


def ring_s(n, vms, size, *, base, between, inside, beta_between, beta_inside, overlap):
    latency = base + 2 * (vms - 1) * between + 2 * (n - vms) * inside
    transfer = 2 * size * (n - 1) / n / (beta_between if vms > 1 else beta_inside)
    return max(latency, transfer) if overlap else latency + transfer


def samples_of(law, worlds=WORLDS, name="q1.x", transport="tcp"):
    return [
        AllreduceSample(name, vms, n, size, ring_s(n, vms, size, **law), transport=transport)
        for (n, vms), size in product(worlds, SIZES)
    ]


LAWS = {
    "typical": {
        "base": 15e-6,
        "between": 40e-6,
        "inside": 5e-6,
        "beta_between": 2.5e9,
        "beta_inside": 40e9,
    },
    "no base": {
        "base": 0.0,
        "between": 25e-6,
        "inside": 8e-6,
        "beta_between": 1e9,
        "beta_inside": 9e9,
    },
    "slow start": {
        "base": 500e-6,
        "between": 100e-6,
        "inside": 1e-6,
        "beta_between": 10e9,
        "beta_inside": 100e9,
    },
}


@pytest.mark.parametrize("overlap", [False, True], ids=["sum", "overlap"])
@pytest.mark.parametrize("case", LAWS, ids=list(LAWS))
def test_samples_without_noise_give_back_their_parameters(case, overlap):
    law = {**LAWS[case], "overlap": overlap}
    links = AlphaBetaModel().fit(samples_of(law)).links(KIND)
    assert links.overlap is overlap
    assert links.base_s == pytest.approx(law["base"], rel=1e-6, abs=1e-12)
    assert links.alpha_between_s == pytest.approx(law["between"], rel=1e-6)
    assert links.alpha_inside_s == pytest.approx(law["inside"], rel=1e-6)
    assert links.beta_between == pytest.approx(law["beta_between"], rel=1e-6)
    assert links.beta_inside == pytest.approx(law["beta_inside"], rel=1e-6)
    assert links.model_fraction == 0.05  # never surer than this


@pytest.mark.parametrize("overlap", [False, True], ids=["sum", "overlap"])
def test_times_of_worlds_and_sizes_that_were_not_measured(overlap):
    law = {**LAWS["typical"], "overlap": overlap}
    model = AlphaBetaModel().fit(samples_of(law))
    worlds = [(2, 1), (24, 3), (128, 16), (7, 7)]
    sizes = [100, 54_321, 5_000_000, 10**9]
    n, vms = (np.array(column) for column in zip(*worlds, strict=True))
    expected = [[ring_s(*world, size, **law) for size in sizes] for world in worlds]
    times = model.time_s(KIND, n, vms, np.array(sizes, dtype=float))
    assert times == pytest.approx(np.array(expected), rel=1e-6)


def test_one_rank_exchanges_nothing():
    model = AlphaBetaModel().fit(samples_of({**LAWS["typical"], "overlap": False}))
    times = model.time_s(KIND, np.array([1, 2]), np.array([1, 1]), np.array([1e3, 1e6]))
    assert times[0].tolist() == [0.0, 0.0]
    assert (times[1] > 0).all()


def test_the_capacity_is_the_bandwidth_of_the_link_that_decides():
    model = AlphaBetaModel().fit(samples_of({**LAWS["typical"], "overlap": False}))
    capacity = model.bus_capacity(KIND, np.array([8, 16]), np.array([1, 2]))
    assert capacity == pytest.approx([40e9, 2.5e9], rel=1e-6)


def test_noise_of_the_samples_becomes_the_model_s_error():
    rng = np.random.default_rng(0)
    law = {**LAWS["typical"], "overlap": False}
    noisy = [
        replace(sample, time_s=sample.time_s * float(np.exp(rng.normal(0, 0.2))))
        for sample in samples_of(law) * 10
    ]
    links = AlphaBetaModel().fit(noisy).links(KIND)
    assert links.beta_between == pytest.approx(2.5e9, rel=0.15)
    assert links.model_fraction == pytest.approx(0.2, rel=0.2)
    world = np.array([2]), np.array([2])
    spread = AlphaBetaModel().fit(noisy).uncertainty(KIND, *world, np.array([1e6]))
    assert spread.model_fraction == links.model_fraction


def test_of_several_transports_the_slowest_counts():
    slow = {**LAWS["typical"], "overlap": False, "beta_between": 1e9}
    fast = {**LAWS["typical"], "overlap": False}
    samples = samples_of(fast, transport="efa") + samples_of(slow, transport="tcp")
    links = AlphaBetaModel().fit(samples).links(KIND)
    assert links.beta_between == pytest.approx(1e9, rel=1e-6)
    assert "tcp" in links.basis


def test_where_one_world_was_measured_the_latency_is_that_of_its_hops():
    law = {**LAWS["typical"], "base": 0.0, "inside": 0.0, "overlap": False}
    one = make_type("one.x", "A", gpus=1)
    samples = samples_of(law, [(4, 4)], name="one.x")
    model = AlphaBetaModel().fit(samples)
    assert model.links(one).alpha_between_s == pytest.approx(40e-6, rel=1e-6)
    expected = ring_s(8, 8, 10**6, **law)
    times = model.time_s(one, np.array([8]), np.array([8]), np.array([1e6]))
    assert times[0, 0] == pytest.approx(expected, rel=1e-6)


def test_between_is_carried_over_from_the_data_sheet_where_only_one_vm_was_measured():
    law = {**LAWS["typical"], "overlap": False}
    model = AlphaBetaModel().fit(samples_of(law, [(2, 1), (4, 1), (8, 1)]))
    links = model.links(KIND)
    assert links.beta_inside == pytest.approx(40e9, rel=1e-6)
    assert links.beta_between == pytest.approx(0.5 * 100e9 / 8)  # half of 100 Gbit/s
    assert links.basis.startswith("ring model")  # inside the VM it is measured
    assert "50% of the rated 100 Gbit/s between VMs" in links.basis


def test_small_messages_alone_do_not_make_the_network_infinitely_fast():
    samples = [
        AllreduceSample(KIND.name, 2, 2, size, 60e-6, transport="tcp") for size in (8, 512, 8192)
    ]
    links = AlphaBetaModel().fit(samples).links(KIND)
    assert links.beta_between == pytest.approx(0.5 * 100e9 / 8)
    assert links.time_s(np.array(2.0), np.array(2.0), np.array(8.0)) == pytest.approx(60e-6, 0.05)


def test_fitting_again_forgets_the_first_samples():
    model = AlphaBetaModel().fit(
        samples_of({**LAWS["typical"], "overlap": False}, [(2, 2), (4, 4)])
    )
    assert "not measured" in model.fit([]).links(KIND).basis


@pytest.mark.parametrize("nvlink", [True, False, None])
def test_an_unmeasured_type_is_answered_from_its_data_sheet(nvlink):
    kind = make_type("new.x", "A", gpus=4, rated_gbit_per_s=25.0, nvlink=nvlink)
    model = AlphaBetaModel()
    times = model.time_s(
        kind, np.array([2, 4, 8, 400]), np.array([1, 1, 2, 100]), np.array([1.0, 1e6, 1e9])
    )
    assert (times > 0).all()
    assert (np.diff(times, axis=1) > 0).all()
    assert (model.bus_capacity(kind, np.array([4, 8]), np.array([1, 2])) > 0).all()
    assert model.bus_capacity(kind, np.array([8]), np.array([2]))[0] == pytest.approx(25e9 / 16)
    (sentence,) = model.assumptions([kind, kind])
    assert "not measured" in sentence
    assert "new.x" in sentence
    assert "25 Gbit/s" in sentence
    spread = model.uncertainty(kind, np.array([2]), np.array([2]), np.array([1e6]))
    assert spread.model_fraction > 0.05


def test_nvlink_seen_on_one_type_holds_for_its_relatives():
    law = {**LAWS["typical"], "overlap": False}
    samples = samples_of(law, [(2, 1), (4, 1), (8, 1)], transport="nvlink")
    model = AlphaBetaModel().fit(samples)
    relative = make_type("new.x", "A", gpus=4, nvlink=True)
    stranger = make_type("other.x", "A", gpus=4, nvlink=False)
    assert model.links(relative).beta_inside == pytest.approx(40e9, rel=1e-6)
    assert "q1.x" in model.links(relative).basis
    assert model.links(stranger).beta_inside < 40e9


def test_fitting_again_is_seen_at_once():
    model = AlphaBetaModel()
    assert "not measured" in model.links(KIND).basis
    model.fit(samples_of({**LAWS["typical"], "overlap": False}))
    assert "not measured" not in model.links(KIND).basis


def test_the_built_in_samples_fit_with_positive_parameters():
    samples = builtin_samples()
    model = AlphaBetaModel().fit(samples)
    for name in {sample.instance_type for sample in samples}:
        links = model.links(make_type(name, "A", gpus=8, rated_gbit_per_s=10.0))
        for value in (links.beta_between, links.beta_inside):
            assert value > 0
            assert np.isfinite(value)
        assert min(links.base_s, links.alpha_between_s, links.alpha_inside_s) >= 0
        assert 0.05 <= links.model_fraction < 1


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0, 1e-3),
    st.floats(1e-6, 1e-4),
    st.floats(1e-6, 1e-4),
    st.floats(1e8, 2e10),
    st.floats(1e8, 2e10),
    st.booleans(),
)
def test_any_ring_is_reproduced(base, between, inside, beta_between, beta_inside, overlap):
    law = {
        "base": base,
        "between": between,
        "inside": inside,
        "beta_between": beta_between,
        "beta_inside": beta_inside,
        "overlap": overlap,
    }
    samples = samples_of(law)
    model = AlphaBetaModel().fit(samples)
    n, vms = (np.array(column) for column in zip(*WORLDS, strict=True))
    times = model.time_s(KIND, n, vms, np.array(SIZES, dtype=float)).ravel()
    expected = np.array([sample.time_s for sample in samples])
    assert (times > 0).all()
    if overlap:
        # A part that never decides leaves no trace in the samples, the others are exact.
        assert np.sqrt(np.mean((times / expected - 1) ** 2)) < 0.05
    else:
        assert times == pytest.approx(expected, rel=1e-6)
