"""Files of JSON lines that processes were killed at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Returns a file's JSON lines; empty ones and those that a kill tore are passed over."""
    found: list[dict[str, Any]] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
