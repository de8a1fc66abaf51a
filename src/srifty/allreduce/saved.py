"""A fitted blend as a file: NumPy's archive format, nothing that runs when it is read."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from srifty.allreduce.atlas import Atlas, Sheet
from srifty.allreduce.blend import Blend
from srifty.allreduce.recipe import BOOSTED, Recipe
from srifty.allreduce.table import Points
from srifty.core.allreduce import Collective, CurveKey
from srifty.core.hardware import InstanceType
from srifty.errors import InputError

# Raised whenever a fit of the same samples would come out differently.
_FORMAT = 3
_COLUMNS = ("world_size", "vms", "size_bytes", "log_time", "repeats")


def save_blend(blend: Blend, path: Path, *, fingerprint: str) -> None:
    """Writes a fitted blend, in one step: readers see the old file or the new one.

    Args:
        blend: a fitted blend.
        path: where to.
        fingerprint: of the samples that it was fitted to.

    Raises:
        OSError: the file cannot be written.
    """
    atlas = blend.atlas
    header = {
        "format": _FORMAT,
        "fingerprint": fingerprint,
        "sheets": [[*sheet.curve, sheet.between] for sheet in atlas.sheets],
        "points": [len(points) for points in atlas.sheets.values()],
        "gpus": {**atlas.gpus},
        "gains": [atlas.gains.get(sheet, 1.0) for sheet in atlas.sheets],
        "allocation_fraction": atlas.allocation_fraction,
        "slow_vms": atlas.slow_vms,
        "recipe": blend.recipe.document(),
        "trees": blend.trees.codes() if blend.trees is not None else None,
    }
    arrays = {
        name: np.concatenate([getattr(points, name) for points in atlas.sheets.values()])
        for name in _COLUMNS
    }
    if blend.trees is not None:
        arrays[BOOSTED] = np.frombuffer(blend.trees.raw(), dtype=np.uint8)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    half_written = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with half_written.open("wb") as file:
            savez: Any = np.savez  # its stub takes every keyword for `allow_pickle`
            savez(file, header=text, **arrays)
        half_written.replace(path)
    finally:
        half_written.unlink(missing_ok=True)


def load_blend(path: Path, *, fingerprint: str, types: Mapping[str, InstanceType]) -> Blend | None:
    """Returns the blend that a file holds; None where it does not fit these samples.

    A file that is missing, stale, torn or of another version is no error: it is fitted anew.

    Args:
        path: where it was saved.
        fingerprint: of the samples at hand.
        types: instance types that are known, by name.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header: dict[str, Any] = json.loads(archive["header"].tobytes())
            if (header["format"], header["fingerprint"]) != (_FORMAT, fingerprint):
                return None
            columns = [archive[name] for name in _COLUMNS]
            raw = archive[BOOSTED].tobytes() if header["trees"] is not None else None
        sheets = [
            Sheet(CurveKey(Collective(collective), *names), bool(between))
            for collective, *names, between in header["sheets"]
        ]
        ends = np.cumsum(header["points"])[:-1]
        parts = zip(*(np.split(column, ends) for column in columns), strict=True)
        atlas = Atlas(
            {sheet: Points(*part) for sheet, part in zip(sheets, parts, strict=True)},
            header["gpus"],
            dict(zip(sheets, header["gains"], strict=True)),
            float(header["allocation_fraction"]),
            float(header["slow_vms"]),
            types,
        )
        recipe = Recipe.of_document(header["recipe"])
        trees = None
        if raw is not None:
            # XGBoost is needed, and imported, only where the recipe uses trees.
            from srifty.allreduce.boosted import Boosted

            trees = Boosted.restored(types, dict(header["trees"] or {}), raw)
        return Blend(types).restore(atlas, recipe, trees)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, InputError):
        return None
