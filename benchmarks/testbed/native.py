"""The bed's three small C programs, compiled at first use."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parent / "native"
FLAGS = {
    "enter": ("-O2", "-Wall"),
    "switch": ("-O2", "-Wall", "-lm"),
    "epoll_pause": ("-O2", "-Wall", "-shared", "-fPIC", "-ldl"),
}


def cache_folder() -> Path:
    """Where compiled programs are kept: XDG_CACHE_HOME or ~/.cache, never a shared folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "srifty" / "testbed"


@cache
def compiled(name: str) -> Path:
    """Path of a compiled program of `native/`, compiled now unless this very source was before.

    Raises:
        RuntimeError: the compiler failed; says what it said.
    """
    source = SOURCES / f"{name}.c"
    flags = FLAGS[name]
    key = hashlib.sha256(
        b"\0".join([source.read_bytes(), *map(str.encode, flags), platform.machine().encode()])
    ).hexdigest()[:16]
    target = cache_folder() / f"{name}-{key}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / name
            done = subprocess.run(
                ["cc", str(source), "-o", str(made), *flags], capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(f"cc could not compile {source}:\n{done.stderr.strip()}")
            made.replace(target)
    return target
