import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

import srifty.training as st
from srifty.errors import InputError


@pytest.fixture(autouse=True)
def _alone():
    st.distribute(torch.nn.Linear(1, 1), st.Share.of(4))


def test_alone_losses_are_plain():
    values = torch.tensor([1.0, 2.0, 3.0, 6.0])
    assert st.mean_loss(values).item() == values.mean().item()
    assert st.sum_loss(values).item() == 12.0
    assert st.sum_loss(values.sum()).item() == 12.0
    assert st.item_loss(values.sum(), 8).item() == 1.5
    assert st.item_loss(values.sum(), torch.tensor([3, 5])).item() == 1.5
    assert st.item_loss(values.sum(), st.item_total(8)).item() == 1.5
    assert st.item_loss(values.sum() * 0, 0).item() == 0.0


def test_losses_keep_their_type_and_halves_are_added_in_32_bits():
    halves = torch.full((4,), 40_000.0, dtype=torch.float16)
    assert st.mean_loss(halves).item() == pytest.approx(40_000, rel=1e-3)
    assert st.mean_loss(halves).dtype == torch.float32
    for dtype in (torch.float32, torch.float64):
        assert st.item_loss(torch.ones((), dtype=dtype), 3).dtype == dtype


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: st.mean_loss(torch.tensor(1.0)), 'reduction="none"'),
        (lambda: st.mean_loss(torch.ones(4, 2)), r"not \(4, 2\)"),
        (lambda: st.mean_loss(torch.ones(5)), "got 5 losses, but worker 0's share is 4 of 4"),
        (lambda: st.mean_loss(torch.ones(5), global_batch=3), "cannot hold 5 samples"),
    ],
)
def test_wrong_losses_are_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_a_smaller_global_batch_is_said():
    assert st.mean_loss(torch.ones(2), global_batch=2).item() == 1.0
    assert st.mean_loss(torch.ones(0), global_batch=2).item() == 0.0


def test_a_count_known_beforehand_serves_several_passes():
    st.distribute(torch.nn.Linear(1, 1), st.Share(0, (4,), (2,)))
    with pytest.raises(InputError, match="item_total"):
        st.item_loss(torch.tensor(3.0), 2)
    total = st.item_total(6)
    assert sum(st.item_loss(torch.tensor(float(v)), total).item() for v in (3, 9)) == 2.0
