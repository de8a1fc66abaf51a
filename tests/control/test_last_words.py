from __future__ import annotations

import pytest

from srifty.control.last_words import last_words

TORCHRUN = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 3, in <module>
[rank0]: ModuleNotFoundError: No module named 'made_up'
E1130 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: 1)
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
  error_file: <N/A>
============================================================
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (TORCHRUN, "ModuleNotFoundError: No module named 'made_up'"),
        ("Traceback:\nsrifty.errors.InputError: no\nbye\n", "srifty.errors.InputError: no"),
        ("step 1\nstep 2\n\n", "step 2"),
        ("", ""),
    ],
)
def test_the_error_is_told_before_the_launchers_own(tmp_path, log, words):
    path = tmp_path / "workers.log"
    path.write_text(log, encoding="utf-8")
    assert last_words(path) == words


def test_a_log_that_is_elsewhere_says_nothing(tmp_path):
    assert last_words(tmp_path / "none") == ""
