import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from srifty.simulator.stragglers import expected_maximum, sampled_maximum

DRAWS = 1_000_000
CHUNK = 50_000


def drawn_maximum(means, stds, counts, *, seed):
    """Mean and spread of the slowest of `sum(counts)` workers, each drawn by itself."""
    rng = np.random.default_rng(seed)
    mean = np.repeat(means, counts)
    std = np.repeat(stds, counts)
    slowest = np.concatenate(
        [
            (mean + std * rng.standard_normal((CHUNK, len(mean)))).max(axis=1)
            for _ in range(DRAWS // CHUNK)
        ]
    )
    return slowest.mean(), slowest.std()


def integral(means, stds, counts):
    mean, std = expected_maximum(
        np.array([means], dtype=float),
        np.array([stds], dtype=float),
        np.array([counts], dtype=float),
    )
    return float(mean[0]), float(std[0])


@pytest.mark.parametrize("workers", [2, 8, 64])
def test_equal_workers_agree_with_a_million_draws(workers):
    rng = np.random.default_rng(workers)
    standard = np.concatenate(
        [rng.standard_normal((CHUNK, workers)).max(axis=1) for _ in range(DRAWS // CHUNK)]
    )
    for spread in (0.03, 0.10):
        slowest = 0.2 * (1 + spread * standard)
        mean, std = integral([0.2], [0.2 * spread], [workers])
        assert mean == pytest.approx(slowest.mean(), rel=1e-3)
        assert std == pytest.approx(slowest.std(), rel=0.03)


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
def test_without_spread_the_slowest_is_the_mean(workers):
    mean, std = integral([0.2], [0.0], [workers])
    assert mean == pytest.approx(0.2, rel=1e-15)
    assert std == 0.0


MIXED = {
    "two types": ([0.200, 0.210], [0.006, 0.002], [8, 4]),
    "two types, wide": ([0.200, 0.180], [0.020, 0.018], [4, 12]),
    "fast many, slow one": ([0.200, 0.205], [0.006, 0.020], [24, 1]),
    "zero spread above": ([0.200, 0.215], [0.010, 0.0], [8, 2]),
    "zero spread below": ([0.200, 0.190], [0.010, 0.0], [8, 2]),
    "zero spread amid": ([0.200, 0.204], [0.020, 0.0], [2, 2]),
    "remainder of one sample": ([0.2000, 0.2008], [0.006, 0.006024], [12, 4]),
    "three types": ([0.200, 0.190, 0.205], [0.020, 0.019, 0.001], [4, 8, 2]),
    "three, one without spread": ([0.200, 0.203, 0.201], [0.006, 0.0, 0.010], [4, 1, 8]),
}


@pytest.mark.parametrize("case", MIXED, ids=list(MIXED))
def test_mixed_groups_agree_with_a_million_draws(case):
    means, stds, counts = MIXED[case]
    drawn_mean, drawn_std = drawn_maximum(means, stds, counts, seed=7)
    mean, std = integral(means, stds, counts)
    assert mean == pytest.approx(drawn_mean, rel=1e-3)
    assert std == pytest.approx(drawn_std, rel=0.03, abs=2e-6)


@pytest.mark.parametrize("case", MIXED, ids=list(MIXED))
def test_the_sampler_agrees_with_the_integral(case):
    means, stds, counts = map(np.array, MIXED[case])
    drawn_mean, drawn_std = sampled_maximum(
        means, stds, counts, draws=200_000, rng=np.random.default_rng(3)
    )
    mean, std = integral(means, stds, counts)
    assert drawn_mean == pytest.approx(mean, rel=1e-3)
    assert drawn_std == pytest.approx(std, rel=0.03, abs=2e-6)


def test_sampler_repeats_itself_for_one_seed():
    values = [
        sampled_maximum(
            np.array([1.0]),
            np.array([0.1]),
            np.array([8]),
            draws=100,
            rng=np.random.default_rng(5),
        )
        for _ in range(2)
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize("std", [0.001, 0.03, 0.1])
def test_two_equal_normals_have_a_closed_form(std):
    # E[max] = m + s / √π and Var[max] = s² (1 − 1/π).
    mean, spread = integral([1.0], [std], [2])
    assert mean == pytest.approx(1 + std / math.sqrt(math.pi), abs=3e-3 * std)
    assert spread == pytest.approx(std * math.sqrt(1 - 1 / math.pi), rel=0.01)


def test_two_different_normals_have_clark_s_closed_form():
    # Clark 1961: E[max] = m1 Φ(a) + m2 Φ(−a) + θ φ(a), θ² = s1² + s2², a = (m1 − m2) / θ.
    m1, s1, m2, s2 = 1.0, 0.05, 1.04, 0.02
    theta = math.hypot(s1, s2)
    a = (m1 - m2) / theta
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    expected = m1 * ndtr(a) + m2 * ndtr(-a) + theta * density
    mean, _ = integral([m1, m2], [s1, s2], [1, 1])
    assert mean == pytest.approx(expected, rel=1e-4)


def test_three_equal_normals_have_a_closed_form():
    mean, _ = integral([1.0], [0.1], [3])
    assert mean == pytest.approx(1 + 0.1 * 3 / (2 * math.sqrt(math.pi)), rel=1e-4)


@pytest.mark.parametrize("workers", [1, 16, 300])
@pytest.mark.parametrize("spread", [0.01, 0.1])
def test_the_quadrature_agrees_with_adaptive_integration(workers, spread):
    # E[max] = ∫ x dF, by parts from a point that the maximum cannot reach below.
    floor, ceiling = 1 - 9 * spread, 1 + 9 * spread
    area, _ = quad(lambda x: ndtr((x - 1) / spread) ** workers, floor, ceiling, limit=200)
    mean, _ = integral([1.0], [spread], [workers])
    assert mean == pytest.approx(ceiling - area, rel=3e-4)


def test_absent_groups_do_not_count():
    alone = integral([0.2], [0.01], [4])
    assert integral([0.2, 9.9], [0.01, 1.0], [4, 0]) == pytest.approx(alone, rel=1e-15)


def test_a_row_does_not_depend_on_the_rows_beside_it():
    # The second group ends far below the first in row 0 only.
    means = np.array([[1.0, 0.80], [1.0, 1.0]])
    stds = np.array([[0.05, 0.04], [0.05, 0.05]])
    counts = np.array([[4.0, 4.0], [4.0, 4.0]])
    together, _ = expected_maximum(means, stds, counts)
    for row in range(2):
        alone, _ = expected_maximum(means[[row]], stds[[row]], counts[[row]])
        assert together[row] == pytest.approx(alone[0], rel=1e-14)


def test_leading_axes_broadcast():
    means = np.array([[[0.1, 0.2], [0.3, 0.1]], [[0.2, 0.2], [0.1, 0.1]]])
    stds = 0.05 * means
    counts = np.array([[[3.0, 2.0]], [[1.0, 4.0]]])
    table, _ = expected_maximum(means, stds, counts)
    assert table.shape == (2, 2)
    for r in range(2):
        for k in range(2):
            mean, _ = integral(means[r, k], stds[r, k], counts[r, 0])
            assert table[r, k] == pytest.approx(mean, rel=1e-14)
