import itertools
import math

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")
from torch.utils.data import DataLoader

from srifty.errors import InputError
from srifty.training import GlobalBatchStream, Share

LENGTH = 50


def open_at(place):
    return itertools.islice(range(LENGTH), place, None)


def batches(share, first=0, workers=0, **options):
    stream = GlobalBatchStream(open_at, share, **options)
    stream.start_at(first)
    return [batch.tolist() for batch in DataLoader(stream, batch_size=None, num_workers=workers)]


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_share_each_global_batch(workers):
    parts = [batches(Share(rank, (5, 3), (2, 1)), workers=workers) for rank in (0, 1)]
    for step in range(LENGTH // 8):
        found = [*parts[0][2 * step], *parts[0][2 * step + 1], *parts[1][step]]
        assert found == list(range(8 * step, 8 * step + 8))
    assert len(parts[0]) == 2 * len(parts[1]) == 12


def test_it_goes_on_anywhere_on_others():
    assert batches(Share.of(2, 6, rank=1), first=4) == [[*range(34, 40)], [*range(42, 48)]]


def test_it_ends_with_the_training():
    assert len(batches(Share.of(4), steps=3)) == 3


def test_only_own_samples_are_decoded():
    decoded = []
    found = batches(Share.of(1, 7), decode=lambda one: decoded.append(one) or math.sqrt(one))
    assert decoded == [0, 8, 16, 24, 32, 40]
    assert found[1] == [pytest.approx(math.sqrt(8))]


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="steps must be 1 or more"):
        GlobalBatchStream(open_at, Share.of(8), steps=0)
    with pytest.raises(InputError, match="outside this training of 2 steps"):
        GlobalBatchStream(open_at, Share.of(8), steps=2).start_at(3)
