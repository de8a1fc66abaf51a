import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.core import ClusterConfig, VmGroup
from srifty.errors import InputError
from tests.builders import make_offer, make_type

from .strategies import cluster_configs, vm_groups

FOUR = make_offer(make_type("p3.8xlarge", gpus=4), usd_per_hour=12.24)


@given(vm_groups())
def test_local_batches_sum_to_the_vm_and_differ_by_at_most_one(group):
    batches = group.local_batches
    assert len(batches) == group.gpus_used
    assert sum(batches) == group.samples_per_vm
    assert max(batches) - min(batches) <= 1
    assert list(batches) == sorted(batches, reverse=True)
    assert min(batches) >= 1


@given(vm_groups())
def test_passes_of_at_most_a_micro_batch_serve_every_worker(group):
    assert (group.micro_batch - 1) * group.accumulation < group.local_batches[0]
    assert group.local_batches[0] <= group.micro_batch * group.accumulation


@given(cluster_configs)
def test_a_configuration_sums_its_groups(config):
    workers = [batch for g in config.groups for _ in range(g.count) for batch in g.local_batches]
    assert config.samples == sum(workers)
    assert config.world_size == len(workers)
    assert config.vms == sum(g.count for g in config.groups)


@pytest.mark.parametrize(
    ("samples", "gpus_used", "batches"),
    [(37, 4, (10, 9, 9, 9)), (41, 4, (11, 10, 10, 10)), (2, 2, (1, 1)), (6, 4, (2, 2, 1, 1))],
)
def test_remainders_within_a_vm(samples, gpus_used, batches):
    assert VmGroup(FOUR, 1, samples, gpus_used).local_batches == batches


def test_price_of_an_hour():
    one = make_offer(usd_per_hour=0.5)
    config = ClusterConfig((VmGroup(FOUR, 2, 64, 4), VmGroup(one, 3, 16, 1)))
    assert config.usd_per_hour == pytest.approx(2 * 12.24 + 3 * 0.5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 8, 4), "count must be a whole number of at least 1, not 0"),
        ((True, 8, 4), "count must be a whole number of at least 1, not True"),
        ((1.0, 8, 4), "count must be a whole number of at least 1, not 1.0"),
        ((1, 0, 4), "samples per VM"),
        ((1, 8, 0), "GPUs used"),
        ((1, 8, 5), "has 4 GPUs, so 5 of them cannot be used"),
        ((1, 2, 4), "2 samples cannot be dealt to 4 GPUs; use at most 2 GPUs"),
        ((1, 8, 4, 0), "accumulation"),
        ((1, 8, 4, 3), "a worker with 2 samples cannot make 3 passes"),
    ],
)
def test_impossible_groups(arguments, words):
    with pytest.raises(InputError) as caught:
        VmGroup(FOUR, *arguments)
    assert words in str(caught.value)
    assert "p3.8xlarge" in str(caught.value)


def test_an_empty_configuration_is_refused():
    with pytest.raises(InputError, match="at least one VM group"):
        ClusterConfig(())


@given(st.integers(1, 10**9), st.integers(1, 4))
def test_exact_at_any_size(samples, gpus_used):
    group = VmGroup(FOUR, 1, max(samples, gpus_used), gpus_used)
    assert sum(group.local_batches) == group.samples_per_vm
