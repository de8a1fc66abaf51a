import json

import pytest

from srifty.control.history import story
from srifty.control.pace import PaceRule
from srifty.control.summary import summary
from srifty.core.events import Progress
from tests.control.told import told_ledger


@pytest.fixture
def ledger(tmp_path):
    with told_ledger(tmp_path / "ledger.db") as made:
        yield made


def test_a_story_is_the_summary_and_how_it_came_there(ledger):
    told = story(ledger, 280.0, is_controlled=True)
    history = told.pop("history")
    assert told == summary(ledger, 280.0, is_controlled=True)
    assert set(history) == {"progress", "pace", "rentals"}
    assert json.loads(json.dumps(history)) == history


def test_progress_and_rentals_are_those_of_the_ledger(ledger):
    history = story(ledger, 280.0, is_controlled=True)["history"]
    assert len(history["progress"]) == 20
    assert history["progress"][-1] == {
        "at_s": 270.0,
        "iteration": 280.0,
        "durable_iteration": 180.0,
        "spent_usd": 0.2,
    }
    first, second = history["rentals"]
    assert (first["running_s"], first["stopped_s"], first["taken_back"]) == (60.0, None, False)
    assert (second["stopped_s"], second["taken_back"]) == (165.0, True)
    assert second["usd_per_hour"] == 3.6


def test_the_pace_of_a_world_knows_nothing_of_the_one_before(ledger):
    paces = story(ledger, 280.0, is_controlled=True)["history"]["pace"]
    before = [pace for pace in paces if pace["at_s"] <= 160.0]
    after = [pace for pace in paces if pace["at_s"] > 170.0]
    assert before
    assert after
    for pace in before:
        assert pace["mean"] == pytest.approx(2.0)
    for pace in after:
        assert pace["mean"] == pytest.approx(1.0)
        assert pace["bound"] >= pace["mean"] - 1e-12


def test_a_world_that_was_broken_off_is_not_run_together_with_its_repetition(ledger):
    ledger.note_progress(Progress(280.0, 240.0, 240.0, 0.3))  # back to the checkpoint
    for number in range(1, 6):
        ledger.note_progress(Progress(280.0 + 10 * number, 240.0 + 10 * number, 240.0, 0.3))
    paces = story(ledger, 340.0, is_controlled=True)["history"]["pace"]
    assert paces[-1]["mean"] == pytest.approx(1.0)


def test_a_long_run_is_thinned_and_keeps_its_ends(tmp_path):
    with told_ledger(tmp_path / "long" / "ledger.db") as ledger:
        for number in range(1_000):
            ledger.note_progress(Progress(300.0 + 10 * number, 300.0 + number, 300.0, 0.3))
        history = story(ledger, 11_000.0, is_controlled=True, rule=PaceRule())["history"]
    times = [point["at_s"] for point in history["progress"]]
    assert len(times) == 160
    assert times == sorted(set(times))
    assert (times[0], times[-1]) == (70.0, 10_290.0)
    assert len(history["pace"]) <= 100
