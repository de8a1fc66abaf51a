import threading

import pytest

from srifty.errors import ProbeFailed
from srifty.probing.watch import ProbeStopped, Watch, run_watched

MINUTE = 60.0


def test_a_task_runs_in_a_thread_of_its_own_to_its_end():
    threads = []
    run_watched(lambda: threads.append(threading.current_thread()), Watch())
    assert threads[0] is not threading.current_thread()


@pytest.mark.parametrize("error", [ProbeFailed("lost"), ValueError("ours"), ProbeStopped()])
def test_what_a_task_raises_is_raised_to_the_one_who_waits(error):
    def task():
        raise error

    with pytest.raises(type(error)) as raised:
        run_watched(task, Watch())
    assert raised.value is error


def test_a_silent_task_is_left_behind():
    never = threading.Event()
    with pytest.raises(ProbeFailed, match="not answered"):
        run_watched(lambda: never.wait(MINUTE) and None, Watch(), silence_s=0.05)
    never.set()


def test_a_task_that_ticks_is_not_silent():
    watch = Watch()

    def task():
        for _ in range(20):
            watch.tick()
            threading.Event().wait(0.01)

    run_watched(task, watch, silence_s=MINUTE)
    assert watch.silence_s < MINUTE


def test_a_task_that_stops_when_asked_is_waited_for():
    watch, stopped = Watch(), []

    def task():
        watch.ask_to_stop()
        stopped.append(watch.is_stop_asked)
        raise ProbeStopped

    with pytest.raises(ProbeStopped):
        run_watched(task, watch, grace_s=MINUTE)
    assert stopped == [True]


def test_a_task_that_cannot_stop_is_left_behind():
    watch, never = Watch(), threading.Event()
    watch.ask_to_stop()
    with pytest.raises(ProbeStopped):
        run_watched(lambda: never.wait(MINUTE) and None, watch, grace_s=0.05)
    never.set()
    assert watch.waited_s > 0.05


def test_asking_again_does_not_prolong_the_grace():
    watch = Watch()
    watch.ask_to_stop()
    threading.Event().wait(0.02)
    waited_s = watch.waited_s
    watch.ask_to_stop()
    assert watch.waited_s >= waited_s
