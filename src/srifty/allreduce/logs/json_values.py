"""Values of unknown JSON, with types."""

from __future__ import annotations

from typing import cast


def as_object(value: object) -> dict[str, object]:
    """Returns a JSON object; an empty one where the value is something else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Returns a JSON list; an empty one where the value is something else."""
    return cast("list[object]", value) if isinstance(value, list) else []
