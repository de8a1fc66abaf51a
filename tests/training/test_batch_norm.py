import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

import srifty.training as st
from tests.training.cases import Normed

MODULE = "tests.training.behaviour"


@pytest.fixture
def found(results):
    return results(MODULE, 2)


def test_statistics_are_pooled_by_elements(found):
    """Case H04: the mean is 1.0 and the biased variance 3.0; without weights the mean is 2.0."""
    pooled = found["pooled statistics"]
    assert pooled["mean"] == [1.0, 1.0]
    assert pooled["unbiased"] == pytest.approx([3.0 * 8 / 7] * 2, rel=1e-12)
    expected = [(0 - 1.0) / 3.0**0.5, (4 - 1.0) / 3.0**0.5]
    assert pooled["normalised"] == pytest.approx(expected, rel=1e-12)


def test_layers_of_any_make_equal_one_processes(found):
    assert len(found["uncommon layers"]) == 3
    for name, apart in found["uncommon layers"].items():
        assert apart <= 1e-10, name


def test_plain_layers_are_warned_about(found):
    (warning,) = found["statistics by weight"]["warned"]
    assert "sync_batch_norm(model)" in warning
    assert "combine_statistics(model)" in warning


def test_plain_statistics_begin_as_rank_0s_and_stay_each_workers_own(found):
    statistics = found["statistics by weight"]
    assert statistics["begun"] == [0.0, 0.0]
    first, second = statistics["apart"]
    assert second - first > 3


def test_combined_statistics_are_those_of_the_whole_batch(found):
    statistics = found["statistics by weight"]
    once, twice = statistics["combined"]
    mean, variance = statistics["whole"]
    assert once[0] == pytest.approx([mean, mean], rel=1e-12)
    # Each worker's variance is unbiased for its own number of elements, 1,200 at least.
    assert once[1] == pytest.approx([variance, variance], rel=1e-3)
    assert twice[0] == pytest.approx(once[0], rel=1e-12)
    assert twice[1] == pytest.approx(once[1], rel=1e-12)


def test_conversion_keeps_parameters_and_the_mode():
    model = Normed().eval()
    model.wide.weight.requires_grad_(False)
    before = {name: value.data_ptr() for name, value in model.state_dict().items()}
    converted = st.sync_batch_norm(model)
    assert converted is model
    assert {name: value.data_ptr() for name, value in model.state_dict().items()} == before
    assert isinstance(model.flat, st.SyncBatchNorm)
    assert not model.wide.weight.requires_grad
    assert not model.wide.training
    assert isinstance(st.sync_batch_norm(torch.nn.BatchNorm1d(3)), st.SyncBatchNorm)


def test_alone_it_is_plain_batch_normalisation():
    x = torch.randn(5, 3, 4)
    plain = torch.nn.BatchNorm1d(3)
    ours = st.sync_batch_norm(torch.nn.BatchNorm1d(3))
    assert torch.equal(ours(x), plain(x))
    assert torch.equal(ours.eval()(x), plain.eval()(x))


def test_combining_in_one_process_changes_nothing():
    model = st.distribute(Normed(), st.Share.of(4))
    model.wide.running_mean.fill_(3.0)
    st.combine_statistics(model)
    assert model.wide.running_mean.tolist() == [3.0] * 3
