import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

INSIDE = Path(__file__).with_name("in_namespace.py")
ROOT = INSIDE.parents[3]
# Of a machine that is busy with other things.
MOST_S = 900


def namespaces():
    """Whether this process may make a network namespace of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run(["unshare", "-n", "true"], check=False).returncode == 0


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("ray", "torch")),
    reason="needs ray and torch (extras ray, train)",
)
@pytest.mark.skipif(not namespaces(), reason="needs root, unshare and ip")
def test_the_contract_holds_on_rays_own_local_cluster():
    script = 'ip link set lo up && exec "$@"'
    command = ["unshare", "-n", "bash", "-c", script, "bash", sys.executable, "-m", "pytest"]
    options = ["-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", str(INSIDE)]
    done = subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "RAY_DEDUP_LOGS": "0"},
        capture_output=True,
        text=True,
        timeout=MOST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
