"""Where the samples of a probe are put: a CSV file, the store, or both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from srifty.allreduce.records import SourceFile
from srifty.allreduce.samples import write_samples
from srifty.allreduce.store import SampleStore, store_path
from srifty.core.allreduce import AllreduceSample
from srifty.errors import InputError


def require_place(csv: Path | None, db: Path | None) -> None:
    """Refuses places where samples cannot be put: better before a measurement than after.

    Args:
        csv: the CSV file that was asked for.
        db: the store that was asked for.

    Raises:
        InputError: the CSV file exists or its folder cannot be written, or the store is none.
    """
    if csv is not None:
        if csv.exists():
            raise InputError("exists already; name another file, or remove it", str(csv))
        if not csv.parent.is_dir():
            raise InputError("its folder does not exist; create it", str(csv))
        if not os.access(csv.parent, os.W_OK):
            raise InputError("its folder cannot be written", str(csv))
    store = _store_for(csv, db)
    if store is not None:
        SampleStore.open(store).close()
        if not os.access(store, os.W_OK):
            raise InputError("cannot be written; name another --db", str(store))


def keep(samples: Sequence[AllreduceSample], csv: Path | None, db: Path | None) -> str:
    """Puts samples away, and returns where, in words.

    Args:
        samples: at least one.
        csv: a CSV file to write.
        db: a store to add to; the default one if there is no CSV file either.

    Raises:
        InputError: a place cannot be written.
    """
    places: list[str] = []
    if csv is not None:
        try:
            with csv.open("x", encoding="utf-8", newline="") as file:
                write_samples(samples, file)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", str(csv)) from None
        places.append(str(csv))
    store = _store_for(csv, db)
    if store is not None:
        with SampleStore.open(store) as opened:
            opened.add(samples, file=SourceFile.of_samples(samples[0].source, samples))
        places.append(f"the store {store}")
    return " and ".join(places)


def _store_for(csv: Path | None, db: Path | None) -> Path | None:
    return db if db is not None or csv is not None else store_path()
