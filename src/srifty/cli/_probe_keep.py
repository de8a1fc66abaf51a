"""Where the samples of a probe are put."""

from __future__ import annotations

import csv as csv_format
import os
from collections.abc import Sequence
from pathlib import Path

from srifty.core.allreduce import AllreduceSample
from srifty.errors import InputError


def require_place(csv: Path | None, db: Path | None) -> None:
    """Raises `InputError` where samples could not be put; better before the measurement than after.

    Args:
        csv: the CSV file that was asked for.
        db: the store that was asked for.
    """
    del db
    if csv is not None:
        if csv.is_dir():
            raise InputError("is a folder; name a CSV file", str(csv))
        if not csv.parent.is_dir():
            raise InputError("its folder does not exist; create it", str(csv))
        if not os.access(csv if csv.exists() else csv.parent, os.W_OK):
            raise InputError("cannot be written", str(csv))


def keep(samples: Sequence[AllreduceSample], csv: Path | None, db: Path | None) -> str:
    """Puts the samples away and returns where, in words."""
    del db
    path = csv or Path("probe.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv_format.writer(file)
        writer.writerow(
            ("instance_type", "nodes", "world_size", "size_bytes", "time_us", "concurrent", "run")
        )
        for s in samples:
            writer.writerow(
                (
                    s.instance_type,
                    s.vms,
                    s.world_size,
                    s.size_bytes,
                    s.time_s * 1e6,
                    s.concurrent,
                    s.run,
                )
            )
    return str(path)
