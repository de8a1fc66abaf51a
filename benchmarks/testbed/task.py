"""What one measurement on the bed is: who trains what, how. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from benchmarks.testbed.draws import Draws


@dataclass(frozen=True)
class Seat:
    """One rank of a run.

    Attributes:
        gpu: the GPU that it emulates.
        batch: samples of each of its passes.
        draws: what was drawn for its VM.
    """

    gpu: str
    batch: int
    draws: Draws


@dataclass(frozen=True)
class Task:
    """One run of the ranks 0 to n - 1 of a world.

    Attributes:
        model: one of `layers.MODELS`.
        seats: one per rank.
        per_layer: one transfer per layer, instead of DistributedDataParallel's buckets.
        threads: gloo's threads: transfers that run at a time.
        links: names the state of the links.
        warm_up: iterations before those that are timed.
        iterations: timed ones.
    """

    model: str
    seats: tuple[Seat, ...]
    per_layer: bool
    threads: int
    links: str
    warm_up: int
    iterations: int

    def to_text(self) -> str:
        """Returns it as JSON."""
        seats = [{**asdict(s), "draws": s.draws.to_text()} for s in self.seats]
        return json.dumps({**asdict(self), "seats": seats}, default=str)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Returns what `to_text` wrote."""
        found = json.loads(text)
        seats = [{**seat, "draws": Draws.from_text(seat["draws"])} for seat in found["seats"]]
        return cls(**{**found, "seats": tuple(Seat(**seat) for seat in seats)})
