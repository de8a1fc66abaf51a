"""Searches of the case study, by hand and by brute force."""

import pytest
from benchmarks.paper.study import PROBES, Loss, bayesian, climb, curve, dips, means

# Throughput rises, dips at 5 VMs, and is best at 8.
DIPPED = {1: 8.0, 2: 5.0, 3: 4.0, 4: 3.5, 5: 3.9, 6: 3.4, 7: 3.2, 8: 3.0}
CONCAVE = {1: 8.0, 2: 5.0, 3: 4.0, 4: 3.5, 5: 3.6, 6: 3.9, 7: 4.4, 8: 5.0}


@pytest.mark.parametrize("concave", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_search_ends_with_the_best_that_it_probed(seed, concave):
    found = bayesian(DIPPED, seed=seed, concave=concave)
    assert len(set(found.probed)) == len(found.probed) <= PROBES
    assert found.choice in found.probed
    assert DIPPED[found.choice] == min(DIPPED[n] for n in found.probed)
    assert found.early == (len(found.probed) < PROBES)
    assert bayesian(DIPPED, seed=seed, concave=concave) == found


def test_the_prior_rules_out_what_a_concave_curve_would():
    for seed in range(50):
        probed = bayesian(DIPPED, seed=seed, concave=True).probed
        for at, n in enumerate(probed):
            for few in probed[:at]:
                for many in probed[:at]:
                    if few < many and DIPPED[many] > DIPPED[few]:
                        assert n < many
                    if few < many and DIPPED[many] < DIPPED[few]:
                        assert n > few


def test_the_trap_costs_the_best_where_throughput_dips_and_nothing_where_not():
    trapped = [bayesian(DIPPED, seed=s, concave=True) for s in range(100)]
    assert any({4, 5} <= set(one.probed) and one.choice == 4 for one in trapped)
    assert climb(DIPPED) == 4
    assert climb(CONCAVE) == 4 == min(CONCAVE, key=CONCAVE.get)
    assert dips(DIPPED) == [5]
    assert dips(CONCAVE) == []


def test_the_process_goes_through_its_probes():
    found = curve(DIPPED, [1, 4, 8])
    assert [found[n] for n in (1, 4, 8)] == pytest.approx([8.0, 3.5, 3.0], rel=1e-3)


def test_losses_by_hand():
    allocations = [{1: 2.0, 2: 1.0}, {1: 1.5, 2: 1.0}]
    loss = Loss.of([1], allocations)
    assert (loss.mean_slower, loss.most_slower) == pytest.approx((1.75, 2.0))
    assert (loss.mean_dearer, loss.most_dearer) == pytest.approx((0.875, 1.0))
    assert means(allocations) == pytest.approx({1: 1.75, 2: 1.0})
