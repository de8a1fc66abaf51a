import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

from torch.nn import functional

import srifty.training as st
from srifty.errors import InputError
from tests.training.cases import Body, Normed, batch_of, errors

MODULE = "tests.training.behaviour"
SHARES = [st.Share.of(5, 2, 1), st.Share(0, (5, 2, 1), (3, 1, 1)), st.Share.of(8)]


def mean(model, batch):
    return st.mean_loss(errors(model, batch).mean(1))


def items(model, batch):
    found, valid = errors(model, batch), batch["valid"]
    weighted = st.item_loss(found[valid].sum() * 2.5, valid.sum() * 2.5)
    return weighted + 0.1 * st.item_loss(found.sum(), found.numel())


def batch(size=8):
    return batch_of(0, size, torch.float64)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("loss", [mean, items])
def test_weighted_losses_agree(share, loss):
    model = Body().double()
    kept = [p.clone() for p in model.parameters()]
    numbers = torch.get_rng_state()
    found = st.verify(model, loss, batch(), share, whole_passes=2)
    assert found.agrees, found
    assert found.simulated
    assert (found.tolerance, found.noise) == (1e-10, 0.0)
    assert "agrees with one process" in str(found)
    assert all(torch.equal(a, b) for a, b in zip(kept, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), numbers)


@pytest.mark.parametrize(
    "loss",
    [
        lambda model, batch: errors(model, batch).mean(),
        lambda model, batch: st.mean_loss(errors(model, batch).mean(1)) / len(batch["x"]),
        lambda model, batch: st.sum_loss(errors(model, batch).mean()),
    ],
)
def test_wrong_losses_differ(loss):
    found = st.verify(Body().double(), loss, batch(), st.Share.of(5, 2, 1))
    assert not found.agrees
    assert found.difference > 0.01
    assert "DIFFERS from one process" in str(found)


def test_infinite_losses_do_not_agree():
    found = st.verify(
        Body().double(), lambda m, b: mean(m, b) * float("nan"), batch(), st.Share.of(5, 3)
    )
    assert not found.agrees


def test_dropout_layers_are_switched_off_and_other_randomness_is_told():
    dropped = torch.nn.Sequential(Body(), torch.nn.Dropout(0.5)).double()
    assert st.verify(dropped, mean, batch(), st.Share.of(5, 3)).agrees
    assert dropped[1].training

    def random(model, part):
        return st.mean_loss(functional.dropout(errors(model, part), 0.5).mean(1))

    found = st.verify(Body().double(), random, batch(), st.Share.of(5, 3))
    assert found.noise > found.tolerance
    assert "nothing can be told" in str(found)


def test_plain_batch_norm_differs_and_says_why():
    found = st.verify(Normed().double(), mean, batch(), st.Share.of(5, 3))
    assert not found.agrees
    assert "sync_batch_norm(model) can" in str(found)


def test_one_process_cannot_play_synchronised_statistics():
    with pytest.raises(InputError, match="run verify under torchrun"):
        st.verify(st.sync_batch_norm(Normed().double()), mean, batch(), st.Share.of(5, 3))


@pytest.mark.parametrize("made", [batch(7), "text", {"x": torch.tensor(1.0)}])
def test_a_batch_of_another_size_is_refused(made):
    with pytest.raises(InputError, match="8 rows, the global batch"):
        st.verify(Body().double(), mean, made, st.Share.of(5, 3))


def test_a_loss_must_be_a_scalar():
    with pytest.raises(InputError, match="scalar tensor"):
        st.verify(Body().double(), errors, batch(), st.Share.of(5, 3))


def test_batches_of_other_kinds_are_cut_by_part():
    found = st.verify(
        Body().double(),
        lambda model, samples: st.mean_loss(torch.stack([model(x).sum() for x in samples])),
        list(torch.randn(8, 6, dtype=torch.float64)),
        st.Share.of(5, 3),
        part=lambda samples, where: samples[where],
    )
    assert found.agrees, found


def test_single_precision_has_its_own_tolerance():
    found = st.verify(Body(), mean, batch_of(0, 8, torch.float32), st.Share.of(5, 3))
    assert found.agrees, found
    assert found.tolerance == 1e-5


@pytest.mark.parametrize("name", ["mean", "items", "one pass", "synced"])
def test_real_workers_agree(results, name):
    found = results(MODULE, 2)["proofs"][name]
    assert found["agrees"], found["text"]
    assert not found["simulated"]
    assert "real processes" in found["text"]
    assert max(found["apart"]) <= 1e-10


def test_real_workers_with_plain_batch_norm_differ(results):
    found = results(MODULE, 2)["proofs"]["normed"]
    assert not found["agrees"]
    assert found["apart"][0] == found["apart"][1]


def test_real_workers_need_the_same_batch(results):
    assert "the same batch on all workers" in results(MODULE, 2)["proofs"]["other batch"]
