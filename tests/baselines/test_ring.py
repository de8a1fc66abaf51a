import numpy as np
import pytest

from srifty.baselines import Ring, RingAllreduce, fit_ring, ring_of_two_vms
from tests.builders import LinearAllreduce, make_type

KIND = make_type("b4.large", gpus=4)


def test_a_known_ring_is_recovered():
    rng = np.random.default_rng(0)
    world = rng.integers(2, 64, size=200)
    size = rng.choice([1e6, 1e8, 4e8], size=200)
    compute_s = rng.uniform(0.01, 0.2, size=200)
    truth = Ring(200e-6, 0.8e9)
    measured_s = np.maximum(compute_s, truth.time_s(world.astype(float), size))
    found = fit_ring(measured_s, compute_s, world, size)
    assert found.alpha_s == pytest.approx(truth.alpha_s, rel=0.03)
    assert found.beta == pytest.approx(truth.beta, rel=0.03)


def test_the_ring_counts_between_vms_of_its_type_only():
    otherwise = LinearAllreduce()
    model = RingAllreduce({KIND.name: Ring(1e-3, 1e9)}, otherwise)
    world, vms, sizes = np.array([1, 4, 8]), np.array([1, 1, 2]), np.array([1e9])
    before = otherwise.time_s(KIND, world, vms, sizes)[:, 0]
    time_s = model.time_s(KIND, world, vms, sizes)[:, 0]
    np.testing.assert_allclose(time_s, [0.0, before[1], 2 * 7 * 1e-3 + 2 * 7 / 8])
    capacity = model.bus_capacity(KIND, world, vms)
    assert capacity[2] == 1e9
    assert capacity[1] == otherwise.bus_capacity(KIND, world, vms)[1]
    other = make_type("c4.large", gpus=4)
    np.testing.assert_array_equal(
        model.time_s(other, world, vms, sizes), otherwise.time_s(other, world, vms, sizes)
    )
    found, before = (m.uncertainty(KIND, world, vms, sizes) for m in (model, otherwise))
    np.testing.assert_array_equal(found.model_fraction, before.model_fraction)
    assert model.warnings(KIND, 8, 2, sizes) == otherwise.warnings(KIND, 8, 2, sizes)
    assert len(model.assumptions([KIND, other])) == 2


def test_a_ring_is_read_off_two_vms():
    world, vms = np.array([8]), np.array([2])
    truth = RingAllreduce({KIND.name: Ring(80e-6, 2e9)}, LinearAllreduce())
    found = ring_of_two_vms(truth, KIND)
    assert found.alpha_s == pytest.approx(80e-6, rel=1e-3)
    assert found.beta == pytest.approx(2e9, rel=1e-3)
    again = RingAllreduce({KIND.name: found}, LinearAllreduce())
    sizes = np.array([1e3, 1e6, 1e9])
    np.testing.assert_allclose(
        again.time_s(KIND, world, vms, sizes), truth.time_s(KIND, world, vms, sizes), rtol=1e-3
    )
