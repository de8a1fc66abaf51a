from dataclasses import replace

import numpy as np
import pytest

from srifty.baselines import paleo_of
from srifty.core import GpuModel, Layer
from srifty.errors import InputError
from srifty.simulator import ConfigTable
from srifty.units import GIB
from tests.builders import make_config, make_job, make_offer, make_profile, make_type

GPU = GpuModel("A", "made up", 16 * GIB, 1e11, {"fp32": 1e12, "fp16": 4e12}, "made up")
LAYERS = (Layer("conv", 2e9, 1e6, 1000), Layer("fc", 1e9, 5e5, 500_000))
OFFER = make_offer(make_type(gpus=4, rated_gbit_per_s=8.0))


def job_of(gradients=((1_000_000, 1.0),), **changes):
    profile = replace(make_profile(gradients=gradients), layers=LAYERS, precision="fp32")
    return make_job(replace(profile, **changes))


def predicted(job, *groups):
    configs = ConfigTable.from_configs([make_config(*each) for each in groups])
    return paleo_of(job, {"A": GPU}).predict(job, configs)


def test_layers_run_at_the_peak_rates_one_after_the_other():
    one = predicted(job_of(), [(make_offer(make_type()), 1, 8)])
    forward_s = 8 * (3e9 / 1e12 + 2 * 1.5e6 / 1e11) + 4 * 501_000 / 1e11
    update_s = 2 * 501_000 / 1e12 + 12 * 501_000 / 1e11
    np.testing.assert_allclose(one.forward_s, forward_s)
    np.testing.assert_allclose(one.backward_s, 2 * forward_s)
    np.testing.assert_allclose(one.optimizer_s, update_s)
    np.testing.assert_allclose(one.mean_s, 3 * forward_s + update_s)
    assert one.exchange_s[0] == 0
    assert not one.std_s.any()


def test_the_peak_is_that_of_the_profile_s_precision():
    slow = predicted(job_of(), [(make_offer(make_type()), 1, 64)])
    fast = predicted(job_of(precision="fp16"), [(make_offer(make_type()), 1, 64)])
    assert 2.5 < slow.mean_s[0] / fast.mean_s[0] < 4


def test_nothing_hides_the_average_of_three_allreduces_over_rated_links():
    job = job_of(gradients=((10_000_000, 0.5), (90_000_000, 1.0)))
    table = predicted(job, [(OFFER, 2, 16)], [(OFFER, 1, 16)], [(OFFER, 3, 16)])
    compute_s = table.forward_s + table.backward_s + table.optimizer_s
    np.testing.assert_allclose(table.mean_s, compute_s + table.exchange_s)
    between, inside = 1e8 / 1e9, 1e8 / 16e9
    np.testing.assert_allclose(
        table.exchange_s,
        [
            between * (2 * 7 + 2 * 3 + 3) / 3,
            inside * (2 * 3 + 2 * 2 + 2) / 3,
            between * (2 * 11 + 2 * 4 + 4) / 3,
        ],
    )


def test_the_slowest_link_of_a_mixed_cluster_counts():
    slow = make_offer(make_type("b1.small", "A", rated_gbit_per_s=2.0))
    table = predicted(job_of(), [(OFFER, 1, 16), (slow, 1, 4)], [(OFFER, 2, 16)])
    hops = [(2 * 4 + 3 * 3) / 3, (2 * 7 + 3 * 3) / 3]
    np.testing.assert_allclose(table.exchange_s, [1e6 / 0.25e9 * hops[0], 1e6 / 1e9 * hops[1]])


def test_without_gradients_the_parameters_are_exchanged():
    assert paleo_of(job_of(gradients=None), {"A": GPU}).exchanged_bytes == 4 * 501_000


@pytest.mark.parametrize(
    ("job", "gpus", "message"),
    [
        (job_of(layers=()), {"A": GPU}, "layers: unknown in the profile of toy on A"),
        (job_of(layers=(Layer("empty", 0.0, 0.0, 5),)), {"A": GPU}, "layers: unknown"),
        (job_of(), {}, "gpu: no data sheet of A"),
    ],
)
def test_what_paleo_cannot_count_is_said(job, gpus, message):
    with pytest.raises(InputError, match=message):
        paleo_of(job, gpus)


def test_assumptions_say_what_it_leaves_out():
    words = paleo_of(job_of(), {"A": GPU}).assumptions(job_of(), [OFFER])
    assert "100%" in words[0]
    assert paleo_of(job_of(), {"A": GPU}).warnings(job_of(), make_config((OFFER, 1, 16))) == ()
