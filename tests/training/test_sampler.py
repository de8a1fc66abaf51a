import pickle
import tracemalloc

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from srifty.errors import InputError
from srifty.training import GlobalBatchSampler, Share

B = 12
# Clusters that share a global batch of 12, with and without accumulation.
CLUSTERS = [
    ((12,), (1,)),
    ((12,), (5,)),
    ((6, 6), (1, 1)),
    ((7, 5), (2, 1)),
    ((5, 4, 2, 1), (1, 2, 1, 1)),
    ((1,) * 12, (1,) * 12),
]
remainders = st.sampled_from(["drop", "keep", "wrap"])


def samplers(cluster, dataset, **options):
    shares = [Share(rank, *cluster) for rank in range(len(cluster[0]))]
    return [GlobalBatchSampler(dataset, share, **options) for share in shares]


def dealt(cluster, step, dataset, **options):
    """All samples of a step, of all workers."""
    parts = [sampler.samples_at(step) for sampler in samplers(cluster, dataset, **options)]
    return sorted(sample for passes in parts for one in passes for sample in one)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(B, 200),
    remainders,
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(CLUSTERS), st.integers(1, 9)), min_size=1, max_size=8),
    st.integers(0, 9),
)
def test_whatever_the_cluster_each_step_has_the_same_samples(
    length, remainder, epochs, turns, seed
):
    options = {"epochs": epochs, "remainder": remainder, "seed": seed}
    alone = samplers(CLUSTERS[0], length, **options)[0]
    undisturbed = [sorted(batch) for batch in alone]
    step, found = 0, []
    turns = [*turns, (CLUSTERS[4], alone.total_steps)]
    for cluster, more in turns:
        workers = samplers(cluster, length, **options)
        end = min(step + more, alone.total_steps)
        if step == end:
            continue
        batches = [[] for _ in range(end - step)]
        for worker in workers:
            worker.start_at(step)
            items = iter(worker)
            for place in range(step, end):
                for _ in worker.parts_at(place):
                    batches[place - step] += next(items)
        found += [sorted(batch) for batch in batches]
        step = end
    assert found == undisturbed


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 100), st.sampled_from(CLUSTERS), st.integers(1, 5), remainders)
def test_epochs_lose_and_repeat_nothing(length, cluster, epochs, remainder):
    options = {"epochs": epochs, "remainder": remainder}
    if remainder == "drop" and length < B:
        with pytest.raises(InputError, match="less than one global batch"):
            samplers(cluster, length, **options)
        return
    one = samplers(cluster, length, **options)[0]
    stream = [s for step in range(one.total_steps) for s in one.global_batch_at(step).tolist()]
    if remainder == "wrap":
        whole = [stream[first : first + length] for first in range(0, epochs * length, length)]
        assert all(sorted(epoch) == list(range(length)) for epoch in whole)
        assert len(stream) - epochs * length < B
    else:
        for epoch in range(epochs):
            first, last = one.first_step_of(epoch), one.first_step_of(epoch + 1)
            samples = [s for step in range(first, last) for s in one.global_batch_at(step).tolist()]
            assert {one.epoch_of(step) for step in range(first, last)} == {epoch}
            assert len(set(samples)) == len(samples)
            assert len(samples) == (length if remainder == "keep" else length // B * B)


@settings(deadline=None, max_examples=50)
@given(st.integers(B, 90), st.sampled_from(CLUSTERS), st.integers(1, 4), remainders, st.data())
def test_the_length_is_that_of_the_next_iteration(length, cluster, epochs, remainder, data):
    for sampler in samplers(cluster, length, epochs=epochs, remainder=remainder):
        sampler.start_at(data.draw(st.integers(0, sampler.total_steps - 1)))
        said = len(sampler)
        assert said == len(list(sampler))


def test_unequal_shares_of_three_epochs():
    epochs = {}
    for split in ((500,), (300, 200), (250, 250)):
        cluster = (split, (1,) * len(split))
        workers = samplers(cluster, 1000, epochs=3, seed=4)
        lists = [list(worker) for worker in workers]
        assert [len(one) for one in lists] == [6] * len(split)
        for step in range(6):
            parts = [set(one[step]) for one in lists]
            assert [len(part) for part in parts] == list(split)
            assert sum(len(part) for part in parts) == len(set().union(*parts))
            epochs.setdefault(step, []).append(frozenset().union(*parts))
    assert all(len(set(sets)) == 1 for sets in epochs.values())
    for first in (0, 2, 4):
        assert epochs[first][0] | epochs[first + 1][0] == set(range(1000))
    orders = [samplers(CLUSTERS[0], 1000, seed=4)[0].global_batch_at(s).tolist() for s in (0, 83)]
    assert orders[0] != orders[1]


def test_six_workers_instead_of_eight():
    # 60,000 samples, 56,800 made by eight workers: 3,200 are left, each once; then new epochs.
    before = samplers(((50,) * 8, (1,) * 8), 60_000, epochs=2)
    after = samplers(((67,) * 4 + (66,) * 2, (1,) * 6), 60_000, epochs=2)
    step = 56_800 // 400
    seen = [s for k in range(step) for one in before for p in one.samples_at(k) for s in p]
    assert before[0].first_step_of(1) - step == 8
    counts = []
    for one in after:
        one.start_at(step)
        batches = list(one)
        seen += [s for batch in batches[:8] for s in batch]
        counts.append(sum(map(len, batches[8:])))
        assert one.total_steps == before[0].total_steps == 300
    assert sorted(seen) == list(range(60_000))
    assert sum(counts) == 60_000
    assert all(abs(count - 10_000) <= 150 for count in counts)  # less than one a step


def test_no_early_end():
    sampler = GlobalBatchSampler(100, Share.of(1, 1), epochs=10)
    assert sampler.total_steps == 500
    sampler.start_at(150)
    assert len(sampler) == len(list(sampler)) == 350
    with pytest.raises(InputError, match="all 500 steps of this training were dealt"):
        next(iter(sampler))


def test_large_epochs_need_neither_memory_nor_replay():
    sampler = GlobalBatchSampler(10**7, Share.of(200, 56), epochs=90)
    tracemalloc.start()
    sampler.start_at(3_000_000)
    batch = next(iter(sampler))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(set(batch)) == 200
    assert peak_bytes < 1 << 20


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return index, index**2


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_deal_in_order(workers):
    sampler = GlobalBatchSampler(Squares(), Share(0, (5, 3), (2, 1)), epochs=2)
    loader = DataLoader(Squares(), batch_sampler=sampler, num_workers=workers)
    assert len(loader) == 20
    expected = [part for step in range(10) for part in sampler.samples_at(step)]
    assert [batch[0].tolist() for batch in loader] == expected


def test_what_was_fetched_ahead_does_not_count():
    sampler = GlobalBatchSampler(Squares(), Share.of(8), epochs=2)
    loader = DataLoader(Squares(), batch_sampler=sampler, num_workers=2, prefetch_factor=2)
    items = iter(loader)
    next(items)
    del items
    assert sampler.next_step == 0
    sampler.start_at(1)
    assert next(iter(loader))[0].tolist() == sampler.samples_at(1)[0]


def test_without_shuffling_samples_come_as_they_are():
    sampler = GlobalBatchSampler(10, Share.of(2, 2, rank=1), shuffle=False, remainder="keep")
    assert list(sampler) == [[2, 3], [6, 7], [9]]


def test_a_worker_may_have_no_samples_of_a_remainder():
    first, second = samplers(((9, 3), (1, 1)), 13, remainder="keep")
    assert first.leaves_workers_idle
    assert [len(part) for part in (*first.samples_at(1), *second.samples_at(1))] == [0, 1]
    assert not GlobalBatchSampler(13, Share.of(9, 3)).leaves_workers_idle


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": 0}, "no samples"),
        ({"dataset": 5}, "less than one global batch of 8"),
        ({"epochs": 0}, "epochs must be 1 or more"),
        ({"epochs": 1, "steps": 1}, "not both"),
        ({"seed": -1}, "seed must not be negative"),
        ({"remainder": "skip"}, "drop, keep, wrap, not 'skip'"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(InputError, match=message):
        GlobalBatchSampler(**{"dataset": 100, "share": Share.of(5, 3), **options})


def test_a_step_outside_the_training_is_refused():
    with pytest.raises(InputError, match="outside this training of 12 steps"):
        GlobalBatchSampler(100, Share.of(8)).start_at(13)


def test_a_sampler_can_be_sent():
    sampler = GlobalBatchSampler(100, Share.of(8), seed=3)
    sampler.start_at(4)
    assert list(pickle.loads(pickle.dumps(sampler))) == list(sampler)
    assert np.array_equal(sampler.global_batch_at(2), np.array(sampler.samples_at(2)[0]))
