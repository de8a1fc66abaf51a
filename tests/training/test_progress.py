import json

import pytest

pytest.importorskip("torch", reason="torch is an extra")

from srifty.errors import InputError
from srifty.training.progress import ProgressLog, StartLine, StepLine, last_lines, log_path


def line(step):
    return StepLine(step, 1e9 + step, 0.5, 3, 8, None)


def test_lines_are_there_at_once_and_read_back(tmp_path):
    log = ProgressLog(tmp_path, 2)
    log.append(StartLine(4, 1e9, 3))
    log.append(line(4))
    assert last_lines(tmp_path, 2) == ([4], 5)
    log.close()
    assert json.loads(log_path(tmp_path, 2).read_text().splitlines()[1]) == {
        "step": 4,
        "at": 1e9 + 4,
        "seconds": 0.5,
        "samples": 3,
        "global_samples": 8,
        "loss": None,
        "exchange_s": None,
    }


def test_a_torn_line_spoils_no_other(tmp_path):
    with ProgressLog(tmp_path, 0) as log:
        log.append(line(1))
    path = log_path(tmp_path, 0)
    path.write_bytes(path.read_bytes() + b'{"step": 2, "se')
    with ProgressLog(tmp_path, 0) as log:
        log.append(StartLine(1, 1e9, 3))
        log.append(line(7))
    assert last_lines(tmp_path, 0) == ([1], 8)
    assert len(path.read_text().splitlines()) == 4


def test_only_the_end_of_a_long_log_is_read(tmp_path):
    with ProgressLog(tmp_path, 0) as log:
        for step in range(3000):
            log.append(line(step))
    assert last_lines(tmp_path, 0) == ([], 3000)


def test_no_log_is_an_empty_one(tmp_path):
    assert last_lines(tmp_path / "none", 0) == ([], 0)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        ProgressLog(tmp_path / "file", 0)
