import re

import pytest
from benchmarks.testbed.cpu import CpuUse
from benchmarks.testbed.guards import Bounds, Verdict, judge_cpu, judge_repeats, tally
from hypothesis import given
from hypothesis import strategies as st

QUIET = CpuUse(own_cores=0.5, all_cores=0.7, cores=2, span_s=10.0)


def test_a_run_that_waits_for_the_link_counts():
    assert judge_cpu(QUIET, [0.1, 0.19]) == Verdict()


def test_own_processes_that_fill_the_cores():
    (reason,) = judge_cpu(CpuUse(1.6, 1.8, 2, 10.0), []).reasons
    assert reason == "the run's processes kept 1.60 of 2 cores busy (80%, at most 75%)"


def test_other_processes_that_fill_the_cores():
    (reason,) = judge_cpu(CpuUse(0.5, 1.2, 2, 10.0), []).reasons
    assert reason == "other processes kept 0.70 of 2 cores busy (35%, at most 25%)"


def test_the_rank_that_waited_longest_is_named():
    (reason,) = judge_cpu(QUIET, [0.1, 0.3, 0.25]).reasons
    assert reason == "rank 1 waited for a core for 0.300 of 10.000 s (3.0%, at most 2.0%)"


def test_every_reason_is_told():
    verdict = judge_cpu(CpuUse(1.4, 2.0, 2, 1.0), [0.5], Bounds(own_fraction=0.5))
    assert verdict.void
    assert len(verdict.reasons) == 3
    assert (verdict + judge_repeats([1.0, 2.0])).reasons[:3] == verdict.reasons


def test_repeats_that_differ():
    (reason,) = judge_repeats([1.0, 1.06, 1.02]).reasons
    assert reason == ("repeats took 1 to 1.06 s (apart by 5.9% of their median, at most 5.0%)")
    assert not judge_repeats([1.0, 1.05, 1.02]).void


@pytest.mark.parametrize("times_s", [[], [1.0]])
def test_one_run_repeats_nothing(times_s):
    assert judge_repeats(times_s).void


@given(st.floats(0, 64), st.floats(0, 64), st.lists(st.floats(0, 100), max_size=5))
def test_more_use_never_saves_a_run(own, foreign, waits_s):
    def judged(more: float) -> Verdict:
        use = CpuUse(own + more, own + foreign + 2 * more, 64, 10.0)
        return judge_cpu(use, [wait_s + more for wait_s in waits_s])

    assert judged(1.0).void or not judged(0.0).void


def test_void_runs_are_counted():
    assert tally([Verdict(), Verdict(("busy",)), Verdict()]) == "1 of 3 runs are void."
    assert re.match("0 of 0", tally([]))
