"""Unequal samples, overflow, and what is refused, as two real workers see it."""

import pytest

MODULE = "tests.training.behaviour"


@pytest.fixture
def found(results):
    return results(MODULE, 2)


def test_unequal_batches_are_not_averaged_as_equals(found):
    """Case H01."""
    means = found["unequal means"]
    assert means["mean"] == pytest.approx([57.0, 57.0], abs=1e-9)
    assert means["sum"] == pytest.approx([228.0, 228.0], abs=1e-9)
    assert means["plain mean"] == pytest.approx([104.667] * 2, abs=1e-3)
    assert means["plain sum"] == [114.0, 114.0]


def test_weights_are_what_counts_in_the_loss(found):
    """Case H02: 10 elements of value 1 beside 50 of value 7."""
    items = found["unequal items"]
    assert items["some"] == pytest.approx([(10 * 1 + 50 * 7) / 60] * 2, rel=1e-12)
    assert items["none here"] == pytest.approx([7.0, 7.0], rel=1e-12)
    assert items["none anywhere"] == [0.0, 0.0]


def test_all_workers_skip_a_step_that_overflows_on_one(found):
    assert found["overflow"] == {"scale": [512.0, 512.0], "moved": [0.0, 0.0]}


def test_a_smaller_batch_may_leave_a_worker_without_samples(found):
    assert max(found["smaller batch"]) <= 1e-10


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("other rank", "the share is worker 1's of 2, but this is process 0 of 2"),
        ("other world", "the share is worker 0's of 3, but this is process 0 of 2"),
        ("other plan", "the workers have different plans"),
        ("passes", "some workers make more passes than others (5/2, 3)"),
        ("torch's", "convert the model with srifty.training.sync_batch_norm(model)"),
        ("sharded", "FSDP gathers parameters in step"),
        ("sharded and more", "this model is sharded already"),
        ("wrapped", "give it the bare model"),
        ("uneven passes", "worker 0's passes hold 2 and 3 samples"),
        ("choice", "compression must be one of None, 'fp16', 'bf16', not 'int8'"),
        ("unweighted", "this loss was not made by srifty.training"),
        ("bare count", "item_total(count of all passes)"),
    ],
)
def test_refusals_say_what_to_do(found, what, words):
    assert words in found["refusals"][what]


def test_an_even_split_may_be_sharded(found):
    assert found["refusals"]["even and sharded"]
