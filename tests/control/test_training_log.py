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


def test_where_a_workers_time_goes():
    log = TrainingLog(float)
    took = [
        {"step": step, "at": 10.0 + step, "seconds": 1.0, "exchange_s": 0.25 if step % 2 else None}
        for step in range(6)
    ]
    log.read([lines(0, *took), lines(1, *({**line, "exchange_s": 0.5} for line in took))])
    first, second = log.worker_steps(("vm-1", "vm-2"), 0.0, 2.0)
    assert (first.vm, first.compute_s, first.exchange_s) == ("vm-1", 1.5, 0.5)
    assert (second.worker, second.compute_s, second.exchange_s) == (1, 1.0, 1.0)
    assert log.worker_steps(("vm-1", "vm-2", "vm-3"), 0.0, 1.0) == ()
    assert log.worker_steps(("vm-1",), 14.5, 1.0) == ()
