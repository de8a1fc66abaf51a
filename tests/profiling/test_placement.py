from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.compute.fit import fit_latency
from srifty.errors import InputError
from srifty.profiling.placement import (
    MOST_CANDIDATES,
    Scouted,
    candidate_sizes,
    chords,
    geometric_probes,
    place_probes,
)


def fit(batches, latencies_s):
    return fit_latency(batches, latencies_s).predict


def curve(sizes, forward, backward=None):
    backward = backward or forward
    return [Scouted(size, forward(size), backward(size)) for size in sizes]


def error(scouted, chosen):
    """Mean relative error at the sizes not chosen: forward, backward or both, the worst one."""
    others = [one for one in scouted if one.batch not in chosen]
    at = np.array([one.batch for one in others], dtype=float)
    errors = []
    for part in (
        lambda one: one.forward_s,
        lambda one: one.backward_s,
        lambda one: one.forward_s + one.backward_s,
    ):
        shown = [part(one) for one in scouted if one.batch in chosen]
        predicted = chords(chosen, shown)(at)
        errors.append(np.mean(np.abs(predicted / [part(one) for one in others] - 1)))
    return float(max(errors))


@given(least=st.integers(1, 5000), more=st.integers(0, 10**6), count=st.integers(2, 30))
def test_candidates_span_the_range_in_order_and_few(least, more, count):
    sizes = candidate_sizes(least, least + more, count)
    assert sizes[0] == least
    assert sizes[-1] == least + more
    assert list(sizes) == sorted(set(sizes))
    assert len(sizes) <= max(count, 2)


def test_candidates_are_half_octaves_where_these_fit_and_else_powers_of_two():
    assert candidate_sizes(1, 64) == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    assert candidate_sizes(1, 2048) == tuple(2**k for k in range(12))
    assert len(candidate_sizes(1, 10**6)) <= MOST_CANDIDATES


@pytest.mark.parametrize(("least", "most"), [(0, 4), (5, 4)])
def test_an_empty_range_is_refused(least, most):
    with pytest.raises(InputError):
        candidate_sizes(least, most)


def test_probes_go_to_both_sides_of_a_jump():
    sizes = candidate_sizes(1, 64)

    def jumps(batch):
        return (1.0 + 0.1 * batch) * (1.0 if batch < 24 else 1.6)

    placed = place_probes([curve(sizes, jumps)], 4, chords)
    assert {16, 24} <= set(placed.batches)
    even = error(curve(sizes, jumps), geometric_probes(sizes, 4))
    assert error(curve(sizes, jumps), placed.batches) < 0.2 * even


@settings(deadline=None)
@given(
    st.lists(st.floats(0.1, 10), min_size=6, max_size=9),
    st.lists(st.floats(0.1, 10), min_size=9, max_size=9),
)
def test_no_other_set_with_both_ends_comes_nearer(forward, backward):
    sizes = [1, 2, 3, 4, 6, 8, 12, 16, 24][: len(forward)]
    scouted = [Scouted(*row) for row in zip(sizes, forward, backward, strict=False)]
    placed = place_probes([scouted], 4, chords)
    least = min(
        error(scouted, (sizes[0], *inner, sizes[-1])) for inner in combinations(sizes[1:-1], 2)
    )
    assert error(scouted, placed.batches) <= least + 0.001 + 1e-12  # what counts as a tie
    assert placed.scouted_error == pytest.approx(error(scouted, placed.batches), abs=1e-12)


def test_many_probes_are_placed_one_after_the_other():
    sizes = tuple(range(1, 31))
    placed = place_probes([curve(sizes, lambda b: 1.0 if b < 17 else 5.0)], 8, chords)
    assert len(placed.batches) == 8
    assert {16, 17} <= set(placed.batches)
    assert placed.scouted_error < 1e-9


def test_a_disturbed_pass_moves_no_probe():
    sizes = candidate_sizes(1, 64)

    def jumps(batch):
        return (1.0 + 0.1 * batch) * (1.0 if batch < 24 else 1.6)

    quiet = curve(sizes, jumps)
    disturbed = [Scouted(one.batch, 3 * one.forward_s, one.backward_s) for one in quiet]
    disturbed[3:] = quiet[3:]
    placed = place_probes([disturbed, quiet, quiet, quiet, quiet], 4, chords)
    assert placed == place_probes([quiet] * 5, 4, chords)


def test_the_model_that_reads_the_probes_places_them():
    sizes = candidate_sizes(1, 64)

    def line(batch):
        return 0.01 + 0.002 * batch

    assert place_probes([curve(sizes, line)], 4, fit).scouted_error < 1e-6


def test_few_sizes_are_all_probed():
    assert place_probes([curve((1, 2, 4), float)], 4).batches == (1, 2, 4)


def test_too_few_probes_are_refused():
    with pytest.raises(InputError):
        place_probes([curve((1, 2, 4), float)], 1)
    with pytest.raises(InputError):
        place_probes([], 4)


def test_even_probes_have_even_ratios():
    assert geometric_probes((1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64), 4) == (1, 4, 16, 64)
