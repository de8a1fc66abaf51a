"""Which batch sizes there are to profile (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from srifty.core.profile import MaxBatchEvidence
from srifty.profiling.device import Device
from srifty.profiling.steps import Precision
from srifty.profiling.workload import Workload


@dataclass(frozen=True)
class SizeRange:
    """The batch sizes that fit.

    Attributes:
        min_batch: smallest usable one.
        max_batch: largest that fits, or that was tried.
        evidence: how that is known.
        peak_memory_bytes: peak memory by batch, where measured.
        notes: what the search found.
    """

    min_batch: int
    max_batch: int
    evidence: MaxBatchEvidence
    peak_memory_bytes: dict[int, int] = field(default_factory=dict[int, int])
    notes: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SizeRange:
        """Returns the range that a journal holds; JSON has text for keys, and lists."""
        return cls(
            **{
                **document,
                "peak_memory_bytes": {
                    int(batch): size for batch, size in document["peak_memory_bytes"].items()
                },
                "notes": tuple(document["notes"]),
            }
        )


def find_sizes(
    workload: Workload,
    device: Device,
    *,
    most: int | None,
    precision: Precision,
    seconds: float,
    reference: str | None,
) -> SizeRange:
    """STUB until limit search lands."""
    return SizeRange(1, most or 64, "stopped-at")
