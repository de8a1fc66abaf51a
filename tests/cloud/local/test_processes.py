from __future__ import annotations

import subprocess
import sys

from srifty.cloud.local.processes import VM_TAG, end_all, stopped, tagged


def test_what_is_killed_is_waited_for_until_its_locks_are_free(tmp_path):
    locks = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
        "print('locked', flush=True); time.sleep(600)"
    )
    lock, tag = tmp_path / "lock", str(tmp_path)
    # Its parent is another process, as torchrun is a worker's: nobody here can wait for it.
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {locks!r}, '{lock}'])"
    with subprocess.Popen(
        [sys.executable, "-c", starts], env={VM_TAG: tag}, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout.readline() == b"locked\n"
        found = tagged(tag)
        assert len(found) == 2
        end_all(found, patience_s=120.0)
        takes = "import fcntl, sys; fcntl.lockf(open(sys.argv[1]), fcntl.LOCK_SH | fcntl.LOCK_NB)"
        subprocess.run([sys.executable, "-c", takes, str(lock)], check=True)
    assert tagged(tag) == []


def test_what_does_not_end_is_not_waited_for_without_end():
    end_all([], patience_s=0.0)
    end_all([2**22 + 1], patience_s=0.0)  # no such process
    assert stopped([2**22 + 1]) == []
