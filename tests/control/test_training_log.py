from __future__ import annotations

import json

from srifty.cloud.backend import WorkerLines
from srifty.control.training_log import TrainingLog, newest_checkpoint


def lines(rank: int, *said: dict | str, after: int = 10) -> WorkerLines:
    text = tuple(line if isinstance(line, str) else json.dumps(line) for line in said)
    return WorkerLines(rank, after, text)


def test_a_start_from_a_checkpoint_takes_back_what_was_not_saved():
    log = TrainingLog(lambda unix_s: unix_s - 100)
    log.read([lines(0, {"start": 0, "at": 101}, {"step": 0, "at": 102}, {"step": 1, "at": 103})])
    assert (log.iteration, log.durable, log.heard_at_s) == (2, 0, 3)
    assert log.made == [(2, 1), (3, 2)]
    log.read([lines(0, {"start": 1, "at": 110}, after=20)])
    assert (log.iteration, log.durable) == (1, 1)
    assert log.made == []
    assert log.after == {0: 20}
    assert log.starts == [0, 1]


def test_only_the_first_worker_counts_steps_but_all_are_heard():
    log = TrainingLog(float)
    log.read([lines(1, {"step": 7, "at": 5.0})])
    assert (log.iteration, log.heard_at_s) == (0, 5.0)


def test_torn_and_foreign_lines_are_passed_over():
    log = TrainingLog(float)
    log.read([lines(0, '{"step": 3, "at"', "[1]", '{"step": 4}', {"step": 5, "at": 1.0})])
    assert log.iteration == 6


def test_the_newest_checkpoint_is_found_by_its_name(tmp_path):
    assert newest_checkpoint(None) == 0
    assert newest_checkpoint(tmp_path / "nowhere") == 0
    for name in ("step-000000000030", "step-000000000004", ".unfinished-step-000000000040"):
        (tmp_path / name).mkdir()
    assert newest_checkpoint(tmp_path) == 30
