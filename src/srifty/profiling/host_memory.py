"""The host's memory: what is left, what this process has, and a guard so that it never runs out."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from srifty.units import KIB

SHARE = 0.8
"""The share of the free memory that a trial may take: other programs keep the rest."""

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
# Limit, use and the key of `memory.stat` for cached files that can go: versions 2 and 1.
_GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


def available_bytes(proc: Path = _PROC, groups: Path = _GROUPS) -> int | None:
    """Returns what this host, or the container that this runs in, can still give; None: unknown."""
    free = _kilobytes_in(proc / "meminfo", "MemAvailable")
    rooms = [
        _room(groups / limit, groups / used, groups / stat, cached_key)
        for limit, used, stat, cached_key in _GROUP_FILES
    ]
    return min((room for room in (free, *rooms) if room is not None), default=None)


def resident_bytes() -> int | None:
    """Returns the memory that this process has; None where the system does not tell."""
    return _kilobytes_in(_PROC / "self" / "status", "VmRSS")


def peak_resident_bytes() -> int | None:
    """Returns the most memory that this process had; None where the system does not tell."""
    return _kilobytes_in(_PROC / "self" / "status", "VmHWM")


def allowed_bytes(*, afresh: bool = False) -> int | None:
    """Returns the memory that this process, or a fresh one, may come to; None: unknown.

    Args:
        afresh: whether it is a fresh process, which has a share of what is free and nothing yet.
    """
    resident, available = 0 if afresh else resident_bytes(), available_bytes()
    if resident is None or available is None:
        return None
    return resident + int(SHARE * available)


@contextmanager
def kept_below(limit_bytes: int | None) -> Generator[None]:
    """Lets allocations fail while this process would grow beyond a limit.

    The system limits addresses, not pages, so what is addressed and not used counts as if it were
    needed later; a GPU's driver addresses far more than there is, so this is for CPUs.

    Args:
        limit_bytes: resident memory of this process; None: no limit.
    """
    resident = resident_bytes()
    addressed = _kilobytes_in(_PROC / "self" / "status", "VmSize")
    if limit_bytes is None or resident is None or addressed is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = addressed + max(limit_bytes - resident, 0)
    existing = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([wanted, *existing]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def offer_to_killer() -> None:
    """Has the system end this process first, before the user's others, if memory runs out."""
    try:
        (_PROC / "self" / "oom_score_adj").write_text("1000", encoding="ascii")
    except OSError:
        return  # no such file outside Linux; then the system chooses


def _kilobytes_in(path: Path, key: str) -> int | None:
    """Returns the bytes of a line such as `VmRSS:  1234 kB`; None where there is none."""
    text = _text(path)
    for line in text.splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * KIB
    return None


def _room(limit: Path, used: Path, stat: Path, cached_key: str) -> int | None:
    """Returns what a control group can still take; None where there is none, or no limit."""
    most, now = _text(limit).strip(), _text(used).strip()
    if not most.isdecimal() or not now.isdecimal():
        return None
    cached = [line.split()[1] for line in _text(stat).splitlines() if line.split()[0] == cached_key]
    return max(int(most) - int(now) + (int(cached[0]) if cached else 0), 0)


def _text(path: Path) -> str:
    """Returns a file's text; empty where the system has no such file."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
