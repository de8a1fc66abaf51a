import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is an extra")

import srifty
from srifty.errors import InputError
from srifty.training import writer_lock

HOLDER = """
import sys, time
from pathlib import Path
from srifty.training.writer_lock import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def holder(folder):
    """A process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        env=os.environ | {"PYTHONPATH": str(Path(srifty.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_one_process_at_a_time_writes_and_its_end_frees_the_folder(tmp_path):
    with holder(tmp_path) as first:
        try:
            for _ in range(2):
                with pytest.raises(InputError, match=rf"writes here \(process {first.pid} on "):
                    writer_lock.hold(tmp_path)
        finally:
            first.send_signal(signal.SIGKILL)
    writer_lock.hold(tmp_path)
    writer_lock.hold(tmp_path)  # what this process holds it may take again
