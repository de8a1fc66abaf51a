import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.simulator.convex import FEW_POINTS
from srifty.simulator.paths import path_values
from srifty.simulator.stragglers import expected_maximum


def paths(draws):
    """(R, K, H) positions of groups of workers that never fall along K."""
    return np.sort(np.array(draws), axis=1)


POSITIONS = st.lists(
    st.lists(st.tuples(st.floats(0.1, 2), st.floats(0.1, 2)), min_size=40, max_size=40),
    min_size=1,
    max_size=4,
).map(paths)


@settings(max_examples=60, deadline=None)
@given(POSITIONS)
def test_without_noise_the_slowest_is_exact(positions):
    near = positions.max(axis=2)
    found = path_values(lambda rows, at: near[rows][:, at], near)
    np.testing.assert_allclose(found, near, rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(POSITIONS)
def test_however_the_paths_jump_only_part_of_the_noise_is_missed(positions):
    def evaluate(rows, at):
        means = positions[rows][:, at]
        return expected_maximum(means, 0.05 * means, np.array([4.0, 8.0]))[0]

    everything = evaluate(np.arange(len(positions)), np.arange(positions.shape[1]))
    found = path_values(evaluate, positions.max(axis=2))
    # The slowest of 12 equal workers exceeds the mean by 1.63 spreads, a lone one by none: values
    # lie between 1 and 1.082 times the slowest mean, and so does what is put between two of them.
    np.testing.assert_allclose(found, everything, rtol=0.082)
    assert (found >= positions.max(axis=2) * (1 - 1e-3)).all()


def test_few_points_are_all_evaluated():
    near = np.linspace(1, 2, FEW_POINTS)[None, :]
    assert (path_values(lambda rows, at: near[rows][:, at] ** 2, near) == near**2).all()


def test_a_path_that_stands_still():
    near = np.ones((2, 30))
    assert (path_values(lambda rows, at: 3 * near[rows][:, at], near) == 3).all()
