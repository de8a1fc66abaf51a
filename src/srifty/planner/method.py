"""How a plan is searched for."""

from __future__ import annotations

from enum import StrEnum


class Method(StrEnum):
    """How a plan is searched for."""

    AUTO = "auto"
    EXHAUSTIVE = "exhaustive"
    ANCHORED = "anchored"
