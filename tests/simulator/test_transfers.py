from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.core import Gradient, GradientSchedule, GradientSync, SyncMode
from srifty.files import builtin_profiles
from srifty.simulator.transfers import job_transfers, transfers_of
from srifty.units import MIB
from tests.builders import PER_TENSOR, make_job, make_profile, make_schedule

CAPS = GradientSync(bucket_bytes=100, first_bucket_bytes=30)


def test_a_bucket_closes_when_it_reaches_its_cap_and_waits_for_its_last_gradient():
    schedule = make_schedule(
        [(10, 0.1), (20, 0.2), (60, 0.3), (50, 0.4), (40, 0.5), (20, 0.9), (5, 1.0)]
    )
    # 10 + 20 reaches 30; 60 + 50 exceeds 100; 40 + 20 + 5 never reaches it and leaves at the end.
    transfers = transfers_of(schedule, CAPS)
    assert transfers.sizes_bytes.tolist() == [30, 110, 65]
    assert transfers.ready.tolist() == [0.2, 0.4, 1.0]
    assert [name.split("(")[1] for name in transfers.names] == [
        "2 tensors)",
        "2 tensors)",
        "3 tensors)",
    ]


def test_a_tensor_above_the_cap_is_a_bucket_of_its_own():
    transfers = transfers_of(make_schedule([(500, 0.2), (500, 0.5), (1, 1.0)]), CAPS)
    assert transfers.sizes_bytes.tolist() == [500, 500, 1]


def test_a_bucket_that_reaches_the_cap_with_the_last_gradient_leaves_no_empty_one():
    transfers = transfers_of(make_schedule([(30, 0.5), (100, 1.0)]), CAPS)
    assert transfers.sizes_bytes.tolist() == [30, 100]


def test_per_layer_sends_every_tensor():
    schedule = make_schedule([(10, 0.1), (20, 0.4), (30, 1.0)])
    transfers = transfers_of(schedule, GradientSync(mode=SyncMode.PER_LAYER))
    assert transfers.sizes_bytes.tolist() == [10, 20, 30]
    assert transfers.ready.tolist() == [0.1, 0.4, 1.0]
    assert transfers.names == ("tensor 0", "tensor 1", "tensor 2")


def test_no_gradients_make_no_transfers():
    for sync in (GradientSync(), PER_TENSOR):
        assert len(transfers_of(make_schedule([]), sync)) == 0


def test_resnet50_in_default_buckets():
    # 102.2 MB: fc.bias and fc.weight reach 1 MiB; then caps of 25 MiB.
    transfers = transfers_of(builtin_profiles("resnet50")[0].gradients, GradientSync())
    assert transfers.sizes_bytes[0] == 4000 + 8192000
    assert (transfers.sizes_bytes[1:-1] >= 25 * 2**20).all()
    assert transfers.sizes_bytes[-1] < 25 * 2**20
    assert transfers.sizes_bytes.sum() == 102228128


def registered(names, ready, unused=(), **about):
    """Gradients of 10 bytes in order of readiness; `names` is the order of registration."""
    places = {name: at for at, name in enumerate(names)}
    return GradientSchedule(
        tuple(Gradient(n, 10, at, index=places[n]) for n, at in ready.items()),
        unused=tuple(Gradient(n, 10, 0.0, index=places[n]) for n in unused),
        **about,
    )


ODD = registered("abcde", {"d": 0.1, "b": 0.4, "a": 1.0}, unused="ce", find_unused_parameters=True)


@pytest.mark.parametrize(
    ("find", "sizes", "ready"),
    [
        # Cut as a | bc | de, and sent in reverse.
        (None, [20, 20, 10], [0.1, 0.4, 1.0]),
        (True, [20, 20, 10], [0.1, 0.4, 1.0]),
        # d | ba | ce
        (False, [10, 20, 20], [0.1, 1.0, 1.0]),
    ],
)
def test_find_unused_parameters_keeps_the_order_of_registration(find, sizes, ready):
    sync = GradientSync(bucket_bytes=15, first_bucket_bytes=5, find_unused_parameters=find)
    transfers = transfers_of(ODD, sync)
    assert transfers.sizes_bytes.tolist() == sizes
    assert transfers.ready.tolist() == ready


def test_an_unknown_order_of_registration_is_the_reverse_of_the_ready_order():
    schedule = make_schedule([(10, 0.1), (20, 0.2), (30, 0.3)])
    sync = GradientSync(bucket_bytes=40, first_bucket_bytes=5, find_unused_parameters=True)
    # 30 | 20 + 10, sent in reverse.
    assert transfers_of(schedule, sync).sizes_bytes.tolist() == [30, 30]


def test_without_buckets_zeros_are_sent_when_the_backward_pass_has_ended():
    transfers = transfers_of(ODD, PER_TENSOR)
    assert transfers.names == ("d", "b", "a", "c", "e")
    assert transfers.ready.tolist() == [0.1, 0.4, 1.0, 1.0, 1.0]
    assert transfers.sizes_bytes.sum() == ODD.total_bytes


def sized(gpu, *ready_at, estimated=False, names="ab"):
    gradients = tuple(
        Gradient(name, 10, 0.5, ready_at=at) for name, at in zip(names, ready_at, strict=True)
    )
    return replace(make_profile(gpu), gradients=GradientSchedule(gradients, estimated))


def test_ready_fractions_follow_the_logarithm_of_the_batch():
    job = make_job(sized("A", {4: 0.1, 64: 0.5}, {4: 0.2, 64: 1.0}), sync=PER_TENSOR)
    transfers = job_transfers(job)
    assert transfers.ready.tolist() == [0.5, 0.5]
    found = transfers.ready_at("A", np.array([1, 4, 16, 64, 1000]))
    np.testing.assert_allclose(
        found, [[0.1, 0.2], [0.1, 0.2], [0.3, 0.6], [0.5, 1.0], [0.5, 1.0]], rtol=1e-12
    )


def test_a_bucket_waits_for_what_is_latest_at_its_batch():
    # The second gradient is the earlier one at 64.
    job = make_job(sized("A", {4: 0.1, 64: 0.9}, {4: 0.2, 64: 0.3}))
    found = job_transfers(job).ready_at("A", np.array([4, 64]))
    np.testing.assert_allclose(found, [[0.2], [0.9]], rtol=1e-12)


def test_a_gpu_model_has_its_own_ready_times_if_its_profile_knows_them():
    job = make_job(
        make_profile("A", [(10, 0.4), (10, 0.6)]),
        sized("B", {8: 0.3}, {8: 0.7}, names=("tensor 0", "tensor 1")),
        sized("C", {8: 0.1}, {8: 0.2}, names=("tensor 0", "other")),
        sized("D", {8: 0.1}, {8: 0.2}, names=("tensor 0", "tensor 1"), estimated=True),
        sync=PER_TENSOR,
    )
    transfers = job_transfers(job)
    assert transfers.ready_at("A", np.array([8])).tolist() == [[0.4, 0.6]]
    assert transfers.ready_at("B", np.array([99])).tolist() == [[0.3, 0.7]]
    for other in "CD":  # of another model; guessed beside what was measured
        assert transfers.ready_at(other, np.array([8])).tolist() == [[0.4, 0.6]]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 200), st.floats(0, 1)), min_size=1, max_size=30),
    st.integers(1, 200),
    st.integers(1, 200),
)
def test_buckets_hold_every_byte_once_and_in_order(gradients, cap, first):
    ready = sorted(fraction for _, fraction in gradients)
    gradients = [(size, at) for (size, _), at in zip(gradients, ready, strict=True)]
    sync = GradientSync(bucket_bytes=cap, first_bucket_bytes=first)
    transfers = transfers_of(make_schedule(gradients), sync)
    ends = np.cumsum([size for size, _ in gradients]).tolist()
    closes = np.cumsum(transfers.sizes_bytes).tolist()
    assert set(closes) <= set(ends)
    assert closes[-1] == ends[-1]
    largest = max(size for size, _ in gradients)
    caps = [first] + [cap] * (len(transfers) - 1)
    for size, bucket_cap in zip(transfers.sizes_bytes[:-1], caps, strict=False):
        assert bucket_cap <= size < bucket_cap + largest
    for close, at in zip(closes, transfers.ready, strict=True):
        assert at == gradients[ends.index(close)][1]
    assert (np.diff(transfers.ready) >= 0).all()


@pytest.mark.parametrize("workload", ["resnet50", "bert-base", "vgg16", "dlrm"])
@pytest.mark.parametrize("caps", [(1, 25), (1, 1), (4, 100)])
def test_buckets_equal_those_of_the_installed_torch(workload, caps):
    torch = pytest.importorskip("torch", reason="torch is an extra")
    from torch.distributed import _compute_bucket_assignment_by_size

    schedule = builtin_profiles(workload)[0].gradients
    tensors = [torch.empty(gradient.bytes // 4, device="meta") for gradient in schedule.gradients]
    limits = [cap * MIB for cap in caps]
    buckets, _ = _compute_bucket_assignment_by_size(tensors, limits)
    sizes = [sum(schedule.gradients[i].bytes for i in bucket) for bucket in buckets]
    sync = GradientSync(first_bucket_bytes=limits[0], bucket_bytes=limits[1])
    assert transfers_of(schedule, sync).sizes_bytes.tolist() == sizes
