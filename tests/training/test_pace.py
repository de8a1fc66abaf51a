from __future__ import annotations

import json
import time

from srifty.cloud import variables
from srifty.training import pace
from srifty.training.pace import Pace


def test_a_step_takes_at_least_as_long_as_it_would_there(tmp_path):
    file = tmp_path / "pace.json"
    held = Pace.from_environment({"SRIFTY_PACE": str(file)})
    for step_s in (0.02, 0.05):  # it may change from step to step
        file.write_text(json.dumps({"step_s": step_s}))
        began_s = time.perf_counter()
        held.hold(began_s)
        assert time.perf_counter() - began_s >= step_s
    held.hold(time.perf_counter() - 1e6)


def test_without_a_pace_nothing_is_held_up():
    Pace.from_environment({}).hold(time.perf_counter() + 1e6)


def test_the_variable_is_the_one_that_back_ends_set():
    assert pace.PACE == variables.PACE


def test_a_played_exchange_is_added_and_told(tmp_path):
    file = tmp_path / "pace.json"
    file.write_text(json.dumps({"step_s": 0.02, "exchange_s": 0.03}))
    began_s = time.perf_counter()
    assert Pace(file).hold(began_s) == 0.03
    assert time.perf_counter() - began_s >= 0.05
    assert Pace(None).hold(began_s) == 0.0
