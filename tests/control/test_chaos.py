"""Five of the schedules of `benchmarks.chaos`; after one, no controller comes back."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from benchmarks.chaos.schedule import KINDS, schedule
from benchmarks.chaos.toy import BATCH, FIRST, after, gradient, samples, undisturbed

SEEDS = (3, 4, 5, 8, 10)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The schedules, side by side: they mostly wait."""
    with ThreadPoolExecutor(3) as pool:
        yield {
            seed: pool.submit(schedule, tmp_path_factory.mktemp(f"seed-{seed}"), seed)
            for seed in SEEDS
        }


@pytest.mark.parametrize("seed", SEEDS, ids=[KINDS[seed % len(KINDS)] for seed in SEEDS])
def test_a_run_that_is_disturbed_ends_as_it_must(runs: dict[int, Future], seed):
    verdict = runs[seed].result()
    assert verdict.problems == []
    assert verdict.deeds[0].is_done


def test_what_is_trained_shows_every_sample_and_not_how_a_batch_was_shared_out():
    shares = [samples(0, 0, 40), samples(0, 40, 24)]
    assert after(FIRST, sum(gradient(FIRST, share) for share in shares)) == undisturbed(1)
    assert after(FIRST, gradient(FIRST, samples(0, 0, BATCH - 1))) != undisturbed(1)
    assert after(FIRST, gradient(FIRST, samples(1, 0, BATCH))) != undisturbed(1)
