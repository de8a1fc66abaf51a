"""Whether a bed's links are what its spec says, by a transfer and round trips between two hosts."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.testbed.bed import Bed
from benchmarks.testbed.switch import pipe

ENDS = Path(__file__).parent / "link_ends.py"


@dataclass(frozen=True)
class LinkCheck:
    """What was measured between two hosts.

    Attributes:
        rtt_s: median round-trip time of one byte over TCP, in s.
        rtt_sd_s: standard deviation of these times, in s.
        mbit: payload rate of the transfer in Mbit/s, its latency included.
    """

    rtt_s: float
    rtt_sd_s: float
    mbit: float


def check_link(bed: Bed, src: str, dst: str, *, pings: int = 50, mbytes: float = 8) -> LinkCheck:
    """Measures a link of a standing bed while nothing else uses it.

    Args:
        bed: the bed.
        src: host that sends.
        dst: host that answers.
        pings: how many round trips.
        mbytes: how much to transfer, in 10^6 bytes.

    Raises:
        RuntimeError: an end failed; says what it said.
    """
    size_bytes = round(mbytes * 1e6)
    python = [sys.executable, "-S", "-E", str(ENDS)]
    pipes: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "shim": False,
    }
    far = bed.popen(dst, [*python, "far", bed.address(dst)], **pipes)
    if pipe(far.stdout).readline() != "ready\n":
        raise RuntimeError(f"far end on {dst}: {far.communicate()[1].strip()}")
    near = bed.popen(src, [*python, "near", bed.address(dst), str(pings), str(size_bytes)], **pipes)
    out, said = near.communicate()
    far.communicate()
    if near.returncode:
        raise RuntimeError(f"near end on {src}: {said.strip()}")
    measured = json.loads(out)
    return LinkCheck(
        rtt_s=statistics.median(measured["rtt_s"]),
        rtt_sd_s=statistics.pstdev(measured["rtt_s"]),
        mbit=8 * size_bytes / measured["transfer_s"] / 1e6,
    )
