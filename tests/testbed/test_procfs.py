import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.testbed.procfs import (
    ProcessId,
    cpu_s,
    machine_cpu_s,
    network_namespace,
    process_id,
    processes,
    queue_wait_s,
)

NOBODY = 2**22 + 1  # above the largest number that Linux gives


def test_this_process():
    me = process_id(os.getpid())
    assert me.alive
    assert me.pid in processes()
    assert not ProcessId(me.pid, me.started_ticks + 1).alive
    assert network_namespace(me.pid) == Path("/proc/self/ns/net").stat().st_ino


def test_a_process_that_is_not_there():
    assert process_id(NOBODY) is None
    assert not ProcessId(NOBODY, 1).alive
    assert network_namespace(NOBODY) is None
    assert cpu_s(NOBODY) == 0
    assert queue_wait_s(NOBODY) == 0


def test_names_may_hold_what_separates_fields():
    script = "open('/proc/self/comm', 'w').write('a) Z 1 (b'); print(); input()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert process_id(child.pid).alive
        child.communicate(b"\n")


def test_one_that_ended_and_was_not_waited_for_is_not_alive():
    child = subprocess.Popen(["true"])
    found = process_id(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not found.alive
    assert child.wait() == 0


def test_time_spent_is_counted():
    before_s, all_before_s = cpu_s(os.getpid()), machine_cpu_s()
    end_s = time.process_time() + 0.1
    while time.process_time() < end_s:
        pass
    assert 0.07 <= cpu_s(os.getpid()) - before_s <= 0.2
    assert machine_cpu_s() - all_before_s >= 0.07


def test_threads_that_share_a_core_wait_for_it():
    one_core = {min(os.sched_getaffinity(0))}
    script = (
        "import hashlib, os, threading\n"
        f"os.sched_setaffinity(0, {one_core})\n"
        "from benchmarks.testbed.procfs import queue_wait_s\n"
        "data, go = bytes(1 << 22), threading.Barrier(2)\n"
        "def work():\n"
        "    go.wait()\n"
        "    for _ in range(20): hashlib.sha256(data)\n"
        "    go.wait()\n"
        "    go.wait()\n"
        "other = threading.Thread(target=work)\n"
        "other.start()\n"
        "go.wait()\n"
        "for _ in range(20): hashlib.sha256(data)\n"
        "go.wait()\n"
        "print(queue_wait_s())\n"
        "go.wait()\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(out.stdout) > 0.01
