import math
import os
import signal
import time

import pytest

pytest.importorskip("torch", reason="torch is an extra")
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.training.notices import Notice
from srifty.training.stopping import StopWatch, Wish, heed, save_interval_s

seconds = st.floats(0.001, 300)


@settings(deadline=None)
@given(seconds, seconds, st.floats(0.001, 30))
def test_a_notice_is_used_to_its_end(announced_s, save_s, step_s):
    """Plays a notice: steps, saves that take as long as the last, and the worker's wishes."""
    now_s, busy_until_s, saved_since, saved = 0.0, -1.0, False, []
    while True:
        now_s += step_s
        asked = heed(
            announced_s - now_s,
            save_s=save_s,
            step_s=step_s,
            saved_since=saved_since,
            is_busy=now_s < busy_until_s,
        )
        if asked.stop:
            break
        if asked.save:
            saved_since, busy_until_s = True, now_s + step_s + save_s
            saved.append(busy_until_s)
    end_s = now_s + step_s
    if not asked.hurry:
        end_s += save_s
        saved.append(end_s)
    # There is a checkpoint in time wherever one fits at all.
    if announced_s > 1.25 * save_s + 5 * step_s + 2:
        assert min(saved) <= announced_s
    # What does not fit is not begun; and the exit is not early by more than the margins.
    assert asked.hurry or end_s <= announced_s
    assert announced_s - end_s <= 0.25 * save_s + 3 * step_s + 2 + (save_s if asked.hurry else 0)


def test_without_a_known_save_time_something_is_saved_at_once():
    asked = heed(60, save_s=None, step_s=1, saved_since=False, is_busy=False)
    assert asked == Wish(save=True)
    # The save that runs may still make it; another cannot.
    assert heed(4, save_s=None, step_s=1, saved_since=True, is_busy=True) == Wish(
        stop=True, hurry=True
    )


def test_saves_are_as_far_apart_as_loses_least():
    stall_s, failures_s = 0.5, 7200.0

    def lost(interval_s):
        return stall_s / interval_s + interval_s / 2 / failures_s

    best_s = save_interval_s(stall_s, 1.0, failures_s)
    assert all(lost(best_s) <= lost(best_s * factor) for factor in (0.5, 0.9, 1.1, 2))
    assert save_interval_s(stall_s, 100.0, failures_s) == 200.0


@pytest.mark.parametrize(("interval_s", "ends"), [(3600.0, False), (None, True)])
def test_a_job_that_fails_every_45_minutes_ends(interval_s, ends):
    stall_s, save_s, failures_s, restart_s, work_s = 2.0, 60.0, 2700.0, 300.0, 6 * 3600.0
    interval_s = interval_s or save_interval_s(stall_s, save_s, failures_s)
    done_s = 0.0
    for _ in range(20):
        # Saves begin every interval and count once they are durable, a failure at the 45th minute.
        saves = math.floor((failures_s - restart_s - save_s) / (interval_s + stall_s))
        done_s += max(saves, 0) * interval_s
    assert (done_s >= work_s) == ends


def test_a_file_asks_for_a_stop(tmp_path):
    path = tmp_path / "stop"
    with StopWatch(path, ()) as watch:
        known = {"save_s": 1.0, "step_s": 0.1, "is_busy": False}
        assert watch.wish(**known) == Wish()
        path.touch()
        assert watch.wish(**known) == Wish(stop=True)


def test_sigterm_asks_for_a_stop_and_is_given_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopWatch(None, ()) as watch:
        os.kill(os.getpid(), signal.SIGTERM)
        assert watch.wish(save_s=None, step_s=0.1, is_busy=False) == Wish(stop=True)
    assert signal.getsignal(signal.SIGTERM) == before


class Told:
    def __init__(self, notice):
        self.notice = notice

    def start(self):
        pass

    stop = start


def test_one_save_is_asked_for_when_a_notice_comes():
    told = Told(None)
    with StopWatch(None, [told]) as watch:
        known = {"save_s": 1.0, "step_s": 0.1, "is_busy": False}
        assert watch.wish(**known) == Wish()
        told.notice = Notice(time.time() + 1000, "terminate")
        assert watch.wish(**known) == Wish(save=True)
        assert watch.wish(**known) == Wish()
        told.notice = Notice(time.time() + 0.5, "terminate")
        assert watch.wish(**known) == Wish(stop=True, hurry=True)
