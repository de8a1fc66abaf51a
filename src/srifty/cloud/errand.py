"""A measurement on a rented VM: runs one of our commands there, and logs the file that it writes.

    python -m srifty.cloud.errand NAME SUFFIX COMMAND [ARGS]

runs `srifty COMMAND ARGS -o FILE`. The first worker appends what the file holds to its log of
steps, which every back end brings to the controller, wherever the VM is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from srifty.cloud.variables import PROGRESS


def main() -> int:
    """Runs the command; returns its exit code."""
    name, suffix, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / f"result{suffix}"
        arguments = [sys.executable, "-m", "srifty", *command, "-o", str(output)]
        code = subprocess.call(arguments)  # noqa: S603 - our own command
        if output.exists() and os.environ.get("RANK", "0") == "0":
            line = {"at": time.time(), "errand": name, "text": output.read_text("utf-8")}
            with (Path(os.environ[PROGRESS]) / "worker-00000.jsonl").open("ab", 0) as log:
                log.write(b"\n" + json.dumps(line).encode() + b"\n")
    return code


def found_in(line: str) -> tuple[str, str] | None:
    """Returns the errand and the file's text that a line tells of; None for any other line."""
    try:
        said: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict) or "errand" not in said:
        return None
    return str(said["errand"]), str(said["text"])  # pyright: ignore[reportUnknownArgumentType]


if __name__ == "__main__":
    sys.exit(main())
