"""Workload profiles as PROFILE.json documents; `srifty.files.profile_file` reads them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from srifty import __version__
from srifty.core.profile import Gradient, WorkloadProfile
from srifty.errors import InputError

FORMAT = "srifty-profile/1"


def profile_document(profile: WorkloadProfile) -> dict[str, Any]:
    """Returns the profile as the file holds it; what is not known is left out of the latencies."""
    document: dict[str, Any] = {"format": FORMAT, "srifty": __version__} | asdict(profile)
    document["latencies"] = [
        {key: value for key, value in asdict(latency).items() if value is not None}
        for latency in profile.latencies
    ]
    schedule = profile.gradients
    document["gradients"] = None
    document["gradients_estimated"] = schedule is not None and schedule.estimated
    if schedule is not None:
        document["gradients"] = [_parameter(g) | _ready(g) for g in schedule.gradients]
        document["unused_parameters"] = [_parameter(gradient) for gradient in schedule.unused]
        document["find_unused_parameters"] = schedule.find_unused_parameters
    document["peak_memory_bytes"] = {
        str(batch): size for batch, size in profile.peak_memory_bytes.items()
    }
    return document


def _parameter(gradient: Gradient) -> dict[str, Any]:
    """Returns what an unused parameter has too; what is not known is left out."""
    about = {"dtype": gradient.dtype, "index": gradient.index, "sparse": gradient.sparse or None}
    known = {key: value for key, value in about.items() if value is not None}
    return {"name": gradient.name, "bytes": gradient.bytes} | known


def _ready(gradient: Gradient) -> dict[str, Any]:
    by_batch = {str(batch): gradient.ready_at[batch] for batch in sorted(gradient.ready_at)}
    return {"ready": gradient.ready} | ({"ready_at": by_batch} if by_batch else {})


def write_profile(profile: WorkloadProfile, path: Path) -> None:
    """Writes a profile; a reader sees the old file or the whole new one.

    Raises:
        InputError: the file cannot be written.
    """
    half_written = path.with_name(f".{path.name}.part")
    text = json.dumps(profile_document(profile), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        half_written.write_text(text + "\n", encoding="utf-8")
        half_written.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None
