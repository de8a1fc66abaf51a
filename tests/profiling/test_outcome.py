import pytest

from srifty.errors import InputError
from srifty.profiling.outcome import Bounds, Outcome, Verdict


@pytest.mark.parametrize("name", ["global_batch", "dataset_size", "user"])
def test_a_bound_below_one_sample_is_refused(name):
    with pytest.raises(InputError, match=f"{name} must be a whole number of at least 1"):
        Bounds(**{name: 0})


def test_an_outcome_reads_as_a_sentence():
    other = Outcome(65536, Verdict.OTHER_ERROR, "RuntimeError: no")
    assert other.sentence == "other error at 65,536: RuntimeError: no"
    assert Outcome(64, Verdict.OUT_OF_MEMORY, "tried to allocate").sentence == (
        "out of memory at 64"
    )


def test_only_memory_makes_a_smaller_batch_worth_a_try():
    assert {verdict for verdict in Verdict if verdict.is_memory} == {
        Verdict.OUT_OF_MEMORY,
        Verdict.OUT_OF_HOST_MEMORY,
        Verdict.NOT_TRIED,
    }
