import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.profiling.limit import find_limit
from srifty.profiling.outcome import Bounds, Outcome, Verdict
from srifty.units import GIB

STEPS = 5
UNITS = 1000


def fits(batch, **measured):
    return Outcome(batch, Verdict.FITS, steps=STEPS, **measured)


def out_of_memory(batch):
    return Outcome(batch, Verdict.OUT_OF_MEMORY, "no room")


@dataclass
class Scripted:
    """Trials whose outcome is known; remembers what was tried."""

    outcome: object
    tried: list = field(default_factory=list)

    def __call__(self, batch):
        self.tried.append(batch)
        return self.outcome(batch)


def below(largest):
    """Fits up to a size; memory is not measured."""
    return Scripted(lambda batch: fits(batch) if batch <= largest else out_of_memory(batch))


@dataclass
class Memory:
    """1,000 units: 120 and 10 per sample, with a spread from step to step."""

    jitter: float = 0.0
    seed: int = 0

    def __post_init__(self):
        self._random = random.Random(self.seed)

    def used(self, batch):
        return (120 + 10 * batch) * (1 + self._random.uniform(-self.jitter, self.jitter))

    def __call__(self, batch):
        peaks = []
        for _ in range(STEPS):
            peaks.append(self.used(batch))
            if peaks[-1] > UNITS:
                return out_of_memory(batch)
        steady = peaks[1:]
        spread = (max(steady) - min(steady)) / (max(steady) + min(steady))
        return fits(batch, peak_bytes=round(max(peaks)), peak_spread=spread)


def p03(**keys):
    memory = Memory(**keys)
    return memory, find_limit(memory, Bounds(memory_bytes=UNITS), least_steps=STEPS, resolution=0)


def test_the_raw_maximum_is_exact_and_the_safe_one_keeps_the_margin():
    _, limit = p03()
    assert (limit.min_batch, limit.raw_max, limit.safe_max) == (1, 88, 85)
    assert (limit.margin, limit.measured, limit.evidence) == (0.03, True, "measured")
    assert limit.max_batch == 85
    assert limit.reason == "limit: out of memory at 89"
    assert limit.peak_memory_bytes[85] == 970


@pytest.mark.parametrize("seed", range(100))
def test_the_safe_maximum_survives_a_thousand_steps_that_differ(seed):
    memory, limit = p03(jitter=0.03, seed=seed)
    assert 85 <= limit.raw_max <= 88
    assert 78 <= limit.safe_max <= 85
    assert 0.03 <= limit.margin <= 0.04
    assert max(memory.used(limit.safe_max) for _ in range(1000)) <= UNITS


def test_without_measured_memory_a_stated_share_is_given_up():
    trials = below(88)
    limit = find_limit(trials, Bounds())
    assert (limit.raw_max, limit.safe_max, limit.measured) == (88, 83, False)
    assert 83 in trials.tried
    assert any("5% of the largest batch are given up" in note for note in limit.notes)


@given(largest=st.integers(1, 5000), cap=st.integers(1, 5000))
def test_every_power_of_two_up_to_the_maximum_was_run_and_so_were_the_maxima(largest, cap):
    trials = below(largest)
    limit = find_limit(trials, Bounds(user=cap), resolution=0)
    assert limit.raw_max == min(largest, cap)
    run = {outcome.batch for outcome in limit.outcomes if outcome.fits}
    assert {limit.raw_max, limit.max_batch} <= run
    assert {2**power for power in range(13) if 2**power <= limit.max_batch} <= run
    assert max(trials.tried) <= cap
    assert limit.evidence == ("measured" if largest < cap else "stopped-at")
    assert len(trials.tried) <= 2 * cap.bit_length() + 2


@given(st.sets(st.integers(2, 300), min_size=1))
@settings(deadline=None)
def test_uneven_memory_never_makes_a_size_safe_that_did_not_run(failing):
    trials = Scripted(lambda batch: out_of_memory(batch) if batch in failing else fits(batch))
    limit = find_limit(trials, Bounds(user=300))
    run = {outcome.batch for outcome in limit.outcomes if outcome.fits}
    assert limit.max_batch in run
    assert not run & failing
    assert set(limit.verified_batches) <= run
    assert {2**power for power in range(9) if 2**power <= limit.max_batch} <= run


def test_a_smaller_size_that_needs_more_bounds_the_safe_maximum():
    def outcome(batch):  # 16 samples take another algorithm, with a large workspace
        peak = 990 if batch == 16 else 100 + 5 * batch
        return fits(batch, peak_bytes=peak)

    limit = find_limit(Scripted(outcome), Bounds(user=64, memory_bytes=UNITS))
    assert limit.raw_max == 64
    assert limit.safe_max < 16


@pytest.mark.parametrize(
    ("bounds", "most", "name"),
    [
        (Bounds(global_batch=256, dataset_size=1000, user=4096), 256, "the global batch"),
        (Bounds(global_batch=4096, dataset_size=1000), 1000, "the size of the data set"),
        (Bounds(global_batch=4096, user=100), 100, "the cap that was asked for"),
        (Bounds(), 65536, "where the search ends"),
    ],
)
def test_the_search_ends_at_the_least_bound_and_says_which(bounds, most, name):
    trials = below(1 << 40)
    limit = find_limit(trials, bounds)
    assert limit.raw_max == max(trials.tried) == most
    assert limit.reason.startswith(f"limit: {most:,}, {name}")
    assert limit.evidence == "stopped-at"


def test_another_error_ends_the_search_and_is_shown():
    def outcome(batch):
        words = "RuntimeError: invalid configuration argument"
        return fits(batch) if batch < 65536 else Outcome(batch, Verdict.OTHER_ERROR, words)

    trials = Scripted(outcome)
    limit = find_limit(trials, Bounds(user=1 << 20))
    assert limit.reason == (
        "limit: other error at 65,536: RuntimeError: invalid configuration argument"
    )
    assert any(limit.reason in note for note in limit.notes)
    assert (limit.raw_max, limit.evidence) == (32768, "stopped-at")
    assert trials.tried.count(65536) == 1
    assert not [size for size in trials.tried if size > 65536]


def test_another_error_while_the_gap_is_narrowed_ends_the_search():
    def outcome(batch):
        if batch == 24:
            return Outcome(batch, Verdict.OTHER_ERROR, "ValueError: no 24")
        return fits(batch) if batch < 32 else out_of_memory(batch)

    limit = find_limit(Scripted(outcome), Bounds())
    assert (limit.raw_max, limit.evidence) == (16, "stopped-at")
    assert limit.reason == "limit: other error at 24: ValueError: no 24"


def test_another_error_below_the_maximum_is_not_swallowed():
    def outcome(batch):
        if batch == 95:  # what is tried for the safe maximum
            return Outcome(batch, Verdict.OTHER_ERROR, "ValueError: no 95")
        return fits(batch)

    limit = find_limit(Scripted(outcome), Bounds(user=100))
    assert (limit.raw_max, limit.safe_max) == (100, 64)
    assert any("ValueError: no 95" in note for note in limit.notes)


def test_an_error_at_one_sample_leaves_no_batch():
    trials = Scripted(lambda batch: Outcome(batch, Verdict.OTHER_ERROR, "KeyError: 'x'"))
    limit = find_limit(trials, Bounds())
    assert trials.tried == [1]
    assert (limit.is_usable, limit.raw_max, limit.max_batch) == (False, 0, 0)
    assert limit.reason == "limit: other error at 1: KeyError: 'x'"


def test_one_sample_too_many_for_the_memory_leaves_no_batch():
    limit = find_limit(below(0), Bounds())
    assert (limit.is_usable, limit.reason) == (False, "limit: out of memory at 1")


def batch_norm(batch):
    return fits(batch) if batch > 1 else Outcome(batch, Verdict.TOO_SMALL, "more than 1 value")


def test_batchnorm_on_one_sample_makes_two_the_least():
    limit = find_limit(Scripted(batch_norm), Bounds(global_batch=4))
    assert (limit.min_batch, limit.raw_max) == (2, 4)
    assert limit.outcomes[0].verdict is Verdict.TOO_SMALL
    assert "memory" not in limit.reason
    assert any("smallest usable batch is 2" in note for note in limit.notes)


def test_batchnorm_and_a_single_sample_leave_no_batch():
    limit = find_limit(Scripted(batch_norm), Bounds(dataset_size=1))
    assert not limit.is_usable
    assert "too few samples at 1" in limit.reason


def test_a_trial_that_trained_nothing_shows_nothing():
    trials = Scripted(lambda batch: Outcome(batch, Verdict.FITS, steps=5 if batch == 1 else 0))
    limit = find_limit(trials, Bounds(user=1024), least_steps=5)
    assert trials.tried == [1, 2]
    assert limit.raw_max == 1
    assert "0 of 5 training steps" in limit.reason


@pytest.mark.parametrize("power", [1, 2])
def test_the_host_is_never_asked_for_more_than_it_has(power):
    limit_bytes = 8 * GIB

    def outcome(batch):
        needed = GIB // 4 + 10_000 * batch**power
        assert needed <= 1.05 * limit_bytes, batch
        return fits(batch, peak_bytes=needed, host_peak_bytes=needed)

    bounds = Bounds(user=10**8, memory_bytes=limit_bytes, host_memory_bytes=limit_bytes)
    limit = find_limit(Scripted(outcome), bounds)
    largest = ((limit_bytes - GIB // 4) / 10_000) ** (1 / power)
    assert 0.9 * largest < limit.raw_max <= largest
    assert "not tried" in limit.reason
    assert limit.evidence == "stopped-at"


def test_trials_end_before_the_time_does():
    trials = Scripted(lambda batch: fits(batch, seconds=0.01 * batch))
    limit = find_limit(trials, Bounds(), seconds=10)
    assert sum(outcome.seconds for outcome in limit.outcomes) <= 10
    assert limit.raw_max == 256
    assert limit.reason.startswith("limit: too slow at 512: not tried")
    assert limit.evidence == "stopped-at"


def test_the_gap_may_stay_open_by_a_share():
    exact, coarse = below(5000), below(5000)
    assert find_limit(exact, Bounds(), resolution=0).raw_max == 5000
    limit = find_limit(coarse, Bounds(), resolution=0.05)
    assert 5000 / 1.05 <= limit.raw_max <= 5000
    assert len(coarse.tried) < len(exact.tried)
    assert limit.evidence == "measured"


def test_every_outcome_is_told_as_it_comes():
    told = []
    limit = find_limit(below(20), Bounds(), on_trial=told.append)
    assert tuple(told) == limit.outcomes


def test_start_up_of_processes_does_not_count_as_growing_with_the_batch():
    trials = Scripted(lambda batch: fits(batch, seconds=9.0 + 0.001 * batch))
    found = find_limit(trials, Bounds(user=64), seconds=100.0)
    assert found.raw_max == 64


def test_a_trial_that_would_outlast_the_time_is_not_begun():
    trials = Scripted(lambda batch: fits(batch, seconds=1.0 * batch))
    found = find_limit(trials, Bounds(user=64), seconds=20.0)
    assert max(trials.tried) == 8
    assert "too slow at 16" in found.reason
