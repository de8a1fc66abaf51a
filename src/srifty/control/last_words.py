"""What a log of workers says of their end."""

from __future__ import annotations

import re
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_LONGEST = 300
# How Python ends a traceback, also where torchrun puts a worker's name before it.
_ERROR = re.compile(r"^(?:\[\w+\]: )?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Failed)\b.*)")
# That a worker failed is known; torchrun says it last, and at length.
_LAUNCHER = "ChildFailedError"


def last_words(log: Path) -> str:
    """Returns the line that tells best why workers ended: their last error, else the last line.

    Args:
        log: what they printed; where there is no such file here, nothing is returned.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:  # what cannot be read has nothing to tell; the log's name is told beside it
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [found[1] for line in lines if (found := _ERROR.match(line)) and _LAUNCHER not in line]
    said = errors or lines
    return said[-1][:_LONGEST] if said else ""
