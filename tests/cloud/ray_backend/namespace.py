"""Tests of Ray's own cluster, run in namespaces of their own where `lo` alone is up.

Ray takes the machine's own address wherever it finds one, and its parts then dial it. Whatever
becomes of the tests, none of their processes is left.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_UNSHARE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")


def _can_be_made() -> bool:
    """Whether this process may make namespaces of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], check=False).returncode == 0


needs_ray = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("ray", "torch")),
    reason="needs ray and torch (extras ray, train)",
)
needs_namespace = pytest.mark.skipif(not _can_be_made(), reason="needs root, unshare and ip")


def run_inside(tests: Path, *options: str, most_s: float) -> None:
    """Runs a file of tests in a namespace; they must all pass, and be some."""
    script = 'ip link set lo up && exec "$@"'
    command = [*_UNSHARE, "bash", "-c", script, "bash", sys.executable, "-m", "pytest"]
    plain = ["-q", "-rs", "-p", "no:cacheprovider", "-o", "filterwarnings=default"]
    done = subprocess.run(
        [*command, *plain, *options, str(tests)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "RAY_DEDUP_LOGS": "0",
            "RAY_raylet_start_wait_time_s": "120",
        },
        capture_output=True,
        text=True,
        timeout=most_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    if " passed" not in done.stdout:
        pytest.skip(done.stdout.strip().splitlines()[-2])
