from hypothesis import given
from hypothesis import strategies as st

from srifty.calibration import HoldOut, folds
from srifty.core import Observation

ROWS = st.lists(
    st.builds(
        Observation,
        workload=st.sampled_from(["a", "b", "c"]),
        gpu=st.just("A"),
        instance_type=st.sampled_from(["x", "y"]),
        gpus_used=st.lists(st.integers(1, 4), min_size=1, max_size=8).map(tuple),
        local_batch=st.integers(1, 64),
        step_s=st.floats(0.01, 10.0),
    ),
    max_size=40,
)


@given(ROWS, st.sampled_from(HoldOut), st.integers(2, 6))
def test_what_is_held_is_not_learned(rows, hold_out, most):
    held = []
    for fold in folds(rows, hold_out, train_max_vms=most):
        identities = {id(row) for row in fold.learned}
        assert not any(id(row) in identities for row in fold.held)
        assert all(row.instance_type == fold.instance_type for row in fold.held + fold.learned)
        assert all(row.vms > 1 for row in fold.held)
        assert all(row.world_size > 1 for row in fold.learned)
        assert any(row.vms > 1 for row in fold.learned)
        if hold_out is HoldOut.WORKLOAD:
            (name,) = {row.workload for row in fold.held}
            assert all(row.workload != name for row in fold.learned)
        if hold_out is HoldOut.NODES:
            assert all(row.vms <= most for row in fold.learned)
            assert all(row.vms > most for row in fold.held)
        held += [id(row) for row in fold.held]
    assert len(held) == len(set(held))


def test_random_fifths_hold_every_row_once_and_depend_on_the_seed():
    rows = [Observation("a", "A", "x", (1, 1), batch, 1.0) for batch in range(1, 60)]
    parts = folds(rows, HoldOut.RANDOM, train_max_vms=4)
    assert sorted(row.local_batch for part in parts for row in part.held) == list(range(1, 60))
    assert parts == folds(rows, HoldOut.RANDOM, train_max_vms=4)
    assert parts != folds(rows, HoldOut.RANDOM, train_max_vms=4, seed=1)
