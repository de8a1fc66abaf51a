import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.simulator.convex import FEW_POINTS, TOLERANCE, convex_values

LINE = st.tuples(st.floats(0, 2), st.floats(0, 2))


def max_of_lines(lines):
    """Rows of maxima of lines (intercept, slope): convex, with kinks."""
    lines = np.array(lines)

    def evaluate(rows, u):
        return (lines[rows, :, :1] + lines[rows, :, 1:] * u).max(axis=1)

    return evaluate


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(LINE, min_size=3, max_size=3), min_size=1, max_size=5),
    st.lists(st.floats(0, 1), min_size=9, max_size=60),
)
def test_values_never_fall_below_and_hardly_exceed_the_function(lines, points):
    evaluate = max_of_lines(lines)
    at = np.sort(points)
    exact = evaluate(np.arange(len(lines)), at)
    found = convex_values(evaluate, len(lines), at)
    last = exact[:, -1:]
    # A kink inside the finest interval costs at most a 256th of the difference of two slopes.
    assert (found >= exact - 1e-12).all()
    assert (found <= exact + 2 * TOLERANCE * last + 2 / 256 + 1e-12).all()


def test_few_points_are_all_evaluated():
    evaluate = max_of_lines([[(0.0, 1.0), (0.4, 0.1), (0.0, 0.0)]])
    at = np.linspace(0, 1, FEW_POINTS)
    assert (convex_values(evaluate, 1, at) == evaluate(np.array([0]), at)).all()


def test_straight_rows_are_evaluated_three_times_and_others_more():
    asked = []
    curves = max_of_lines([[(1.0, 1.0)] * 3, [(0.0, 1.0), (0.3, 0.0), (0.0, 0.0)]])

    def evaluate(rows, u):
        asked.append((rows.tolist(), len(u)))
        return curves(rows, u)

    found = convex_values(evaluate, 2, np.linspace(0, 1, 50))
    assert found[0] == pytest.approx(1 + np.linspace(0, 1, 50))
    assert asked[0] == ([0, 1], 3)
    assert all(rows == [1] for rows, _ in asked[1:])


def test_points_that_all_coincide():
    evaluate = max_of_lines([[(1.0, 1.0)] * 3])
    assert convex_values(evaluate, 1, np.full(20, 0.5)).tolist() == [[1.5] * 20]
