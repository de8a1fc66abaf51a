from __future__ import annotations

import time

import pytest

from srifty.cloud.clock import Clock
from srifty.errors import InputError


def test_a_clock_may_run_faster_than_real_time():
    clock = Clock(time.time() - 10.0, factor=60.0)
    assert clock.now_s() >= 600.0
    assert clock.at_s(clock.unix_s(600.0)) == pytest.approx(600.0, abs=1e-3)
    began = time.monotonic()
    clock.sleep(0.6)
    assert time.monotonic() - began >= 0.01
    clock.sleep(-1.0)


def test_before_the_command_there_is_no_time():
    assert Clock(time.time() + 100.0).now_s() == 0.0


def test_a_clock_that_stands_still_is_refused():
    with pytest.raises(InputError, match="factor"):
        Clock(0.0, 0.0)
