import pytest
from hypothesis import given
from hypothesis import strategies as some

pytest.importorskip("torch", reason="torch is an extra")

from srifty.errors import InputError
from srifty.training import Share


@some.composite
def shares(draw):
    batches = draw(some.lists(some.integers(1, 40), min_size=1, max_size=9))
    passes = [draw(some.integers(1, samples)) for samples in batches]
    return Share(draw(some.integers(0, len(batches) - 1)), tuple(batches), tuple(passes))


@given(shares())
def test_the_parts_of_all_workers_deal_the_global_batch(share):
    everyone = [share.of_rank(rank) for rank in range(share.world_size)]
    dealt = [place for one in everyone for part in one.parts for place in range(100_000)[part]]
    assert dealt == list(range(share.global_batch))
    for one in everyone:
        assert len(one.micro_batches) == one.accumulation
        assert sum(one.micro_batches) == one.local_batch
        assert max(one.micro_batches) - min(one.micro_batches) <= 1
        assert one.parts[0].start == one.start


def test_what_is_even():
    assert Share.of(4, 4).is_even
    assert not Share.of(5, 3).is_even
    assert not Share(0, (4, 4), (1, 2)).is_even
    assert Share(0, (4, 4), (1, 2)).passes_differ
    assert not Share.of(5, 3).passes_differ


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Share(0, (), ()), "a share needs"),
        (lambda: Share(0, (1, 2), (1,)), "not 2 and 1"),
        (lambda: Share.of(1, 2, rank=2), "between 0 and 1, not 2"),
        (lambda: Share.of(1, 0), "worker 1: samples must be a whole number of at least 1, not 0"),
        (lambda: Share.of(1.5), "worker 0: samples must be a whole number of at least 1, not 1.5"),
        (lambda: Share(0, (2, 3), (1, 4)), "worker 1: 3 samples cannot be done in 4 passes"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
