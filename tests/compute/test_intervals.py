import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.compute.intervals import WIDEST_FRACTION, conformal_fraction, scaled_fraction
from srifty.errors import InputError


def test_the_quantile_leaves_room_for_the_new_point():
    # 19 scores and the new one: the 18th of 20 is the 90 % quantile.
    scores = [float(score) for score in range(1, 20)]
    assert conformal_fraction(scores, [1.0] * 19) == 18.0


def test_too_few_scores_give_the_largest():
    assert conformal_fraction([0.1, 0.3, 0.2], [1.0] * 3) == 0.3


def test_weights_count():
    assert conformal_fraction([0.1, 0.2, 0.9], [90.0, 90.0, 1.0], coverage=0.5) == 0.2
    assert conformal_fraction([0.1, 0.2, 0.9], [1.0, 1.0, 90.0], coverage=0.5) == 0.9


def test_new_scores_stay_below_as_often_as_promised():
    rng = np.random.default_rng(3)
    held = [
        rng.exponential() <= conformal_fraction(rng.exponential(size=30).tolist(), [1.0] * 30)
        for _ in range(2000)
    ]
    assert 0.88 <= np.mean(held) <= 0.95


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0.1, 5)), min_size=1, max_size=30),
    st.floats(0.1, 0.9),
)
def test_more_coverage_is_never_narrower(scored, coverage):
    scores, weights = [list(part) for part in zip(*scored, strict=True)]
    narrow = conformal_fraction(scores, weights, coverage=coverage)
    assert narrow in scores
    assert narrow <= conformal_fraction(scores, weights, coverage=min(1.0, coverage + 0.1))


@pytest.mark.parametrize(("scores", "weights"), [([], []), ([0.1, 0.2], [1.0])])
def test_scores_and_weights_must_match(scores, weights):
    with pytest.raises(InputError):
        conformal_fraction(scores, weights)


def test_the_interval_of_a_scaled_curve_grows_up_to_its_limit():
    widths = [scaled_fraction(apart, 1) for apart in (0.0, 0.5, 2.0, 50.0)]
    assert widths == sorted(widths)
    assert widths[-1] == WIDEST_FRACTION
    assert scaled_fraction(1.0, 3, several_gpus_base=0.1) == pytest.approx(0.2)
