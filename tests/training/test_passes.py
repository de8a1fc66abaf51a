from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

import srifty.training as st
from srifty.errors import InputError


class Watched:
    """Stands in for a distributed model."""

    silent = False

    @contextmanager
    def no_sync(self):
        self.silent = True
        yield
        self.silent = False


@pytest.mark.parametrize("batches", [[1], [1, 2, 3], iter("ab")])
def test_only_the_last_pass_exchanges(batches):
    st.distribute(torch.nn.Linear(1, 1), st.Share.of(4))
    model = Watched()
    batches = list(batches)
    seen = [(batch, model.silent) for batch in st.passes(model, iter(batches))]
    assert seen == [(batch, place < len(batches) - 1) for place, batch in enumerate(batches)]


def test_a_bare_count_is_refused_while_several_passes_are_made():
    model = st.distribute(torch.nn.Linear(1, 1), st.Share.of(4))
    for _ in st.passes(model, [1]):
        st.item_loss(torch.tensor(1.0), 2)
    for _ in st.passes(model, [1, 2]):
        with pytest.raises(InputError, match="item_total"):
            st.item_loss(torch.tensor(1.0), 2)
    st.item_loss(torch.tensor(1.0), 2)


def test_a_worker_needs_a_pass():
    with pytest.raises(InputError, match="at least one pass"):
        next(st.passes(torch.nn.Linear(1, 1), []))
