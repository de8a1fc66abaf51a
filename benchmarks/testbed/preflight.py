"""What the bed needs of the machine, checked before anything is made.

    python3 -m benchmarks.testbed.preflight

needs nothing installed; exits with 2 where something lacks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TUN = Path("/dev/net/tun")
_TOOLS = {
    "ip": "`ip` is not found: install iproute2 (Debian, Ubuntu: apt install iproute2).",
    "tc": "`tc` is not found: install iproute2 (Fedora: dnf install iproute-tc).",
    "unshare": "`unshare` is not found: install util-linux.",
    "cc": "`cc` is not found: install a C compiler (Debian, Ubuntu: apt install gcc libc6-dev).",
}


def preflight() -> list[str]:
    """What is missing, a sentence each that says what to do; empty where the bed can be built."""
    if os.uname().sysname != "Linux":
        return ["The emulated cluster is made of Linux network namespaces: run it on Linux."]
    root = os.geteuid() == 0
    # Others than root often do not search these, and would be told to install what is there.
    places = os.environ.get("PATH", os.defpath) + ("" if root else ":/usr/sbin:/sbin")
    missing = [sentence for tool, sentence in _TOOLS.items() if not shutil.which(tool, path=places)]
    if not root:
        missing.append(
            "Network namespaces and traffic shaping need root: run this as root "
            "(in a container: with --privileged)."
        )
        return missing  # what follows cannot be told without
    if not missing:
        missing += _refused()
    if not _tun_opens():
        missing.append(
            f"{TUN} cannot be opened, which links with a delay need: load it with `modprobe tun`, "
            f"or make it with `mkdir -p /dev/net && mknod {TUN} c 10 200`."
        )
    return missing


def _tun_opens() -> bool:
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError:
        return False
    return True


# In a namespace that has no name and goes with its shell, whatever happens to this process.
_TRIAL = """
echo "veth devices (kernel option CONFIG_VETH)"
ip link add name end0 type veth peer name end1 || exit 1
echo "bridges (kernel option CONFIG_BRIDGE)"
ip link add name bridge0 type bridge || exit 1
echo "token-bucket shaping (kernel option CONFIG_NET_SCH_TBF)"
tc qdisc add dev end0 root tbf rate 1mbit burst 9000 limit 9000 || exit 1
"""


def _refused() -> list[str]:
    """Whether the kernel lets this process make a namespace with a shaped link, by doing it."""
    trial = subprocess.run(["unshare", "--net", "sh", "-c", _TRIAL], capture_output=True, text=True)
    if trial.returncode == 0:
        return []
    what = (trial.stdout.splitlines() or ["network namespaces"])[-1]
    said = (trial.stderr.strip().splitlines() or ["no reason given"])[-1]
    return [f"This machine refuses {what}: {said}."]


def main() -> int:
    """Prints what is missing; returns the exit code."""
    missing = preflight()
    for sentence in missing:
        print(sentence, file=sys.stderr)
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
