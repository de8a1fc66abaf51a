"""The configurations that are forecast and then run. Pure.

Which model, mode and number of slots a configuration gets is drawn by a fixed seed, evenly; what
would take longer than `_MOST_S` per iteration by the nominal figures is drawn again. The nominal
figures serve to choose, never to forecast.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, product

from benchmarks.testbed.kinds import (
    FAMILIES,
    KINDS,
    PROBED_WORLDS,
    UNSEEN_WORLDS,
    Kind,
    kinds_of,
)
from benchmarks.testbed.layers import MODELS, layers_of
from benchmarks.testbed.pace import pace_of

PROBED, WORLD, RATE, MIX = "probed", "unseen world", "unseen rate", "unseen mix"
MANY = 16  # threads that are never all in use
# Batch sizes by GPU: small enough that computation does not hide every exchange.
_BATCHES = {
    "resnet18": {"K80": 8, "T4": 64, "V100": 64},
    "resnet50": {"K80": 8, "T4": 20, "V100": 40},
    "vgg16": {"K80": 8, "T4": 8, "V100": 16},
    "alexnet": {"K80": 32, "T4": 64, "V100": 128},
    "bert-base": {"K80": 4, "T4": 4, "V100": 8},
    "dlrm": {"K80": 2048, "T4": 4096, "V100": 8192},
}
_MOST_S = 0.55
_BUCKETS_OF = 16  # transfers of a bucketed model, roughly
_MIXES = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (4, 4))


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration.

    Attributes:
        part: `PROBED`, or what of it was not probed.
        model: one of `layers.MODELS`.
        groups: (type, VMs, samples of each VM).
        per_layer: one transfer per layer instead of buckets.
        slots: transfers at a time; None: as many as there are.
    """

    part: str
    model: str
    groups: tuple[tuple[str, int, int], ...]
    per_layer: bool
    slots: int | None

    @property
    def world_size(self) -> int:
        """Ranks."""
        return sum(count for _, count, _ in self.groups)

    @property
    def family(self) -> str:
        """The network."""
        return KINDS[self.groups[0][0]].family

    @property
    def threads(self) -> int:
        """Threads that gloo gets."""
        return MANY if self.slots is None else self.slots

    @property
    def notation(self) -> str:
        """As `srifty simulate --config` takes it."""
        return " + ".join(f"{count}{kind}@{samples}" for kind, count, samples in self.groups)

    @property
    def label(self) -> str:
        """In words, unique among the cases."""
        mode = "per layer" if self.per_layer else "buckets"
        return f"{self.model}, {self.notation}, {mode}, {self.slots or 'unlimited'} slots"


def all_cases(*, seed: int = 0) -> tuple[Case, ...]:
    """Returns the full list, ordered by network."""
    draw = random.Random(seed)  # noqa: S311 - a choice of cases, not a secret
    hows = list(product(MODELS, (False, True), (1, 2, None)))
    draw.shuffle(hows)
    turns = cycle(hows)
    found: dict[str, Case] = {}
    for part, kinds in _frames():
        for _ in range(4 * len(hows)):
            model, per_layer, slots = next(turns)
            case = Case(
                part,
                model,
                tuple((kind.name, count, _BATCHES[model][kind.gpu]) for kind, count in kinds),
                per_layer,
                slots,
            )
            if nominal_s(case) <= _MOST_S and case.label not in found:
                found[case.label] = case
                break
    return tuple(sorted(found.values(), key=lambda case: FAMILIES.index(case.family)))


def short_cases(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """Returns a spread of so many cases: every k-th."""
    return tuple(cases[round(i * len(cases) / count)] for i in range(min(count, len(cases))))


def _frames() -> Iterator[tuple[str, tuple[tuple[Kind, int], ...]]]:
    """Yields what is rented: (part, types with their numbers of VMs)."""
    for family in FAMILIES:
        probed = kinds_of(family, probed=True)
        for kind, n, _ in product(probed, PROBED_WORLDS, range(3)):
            yield PROBED, ((kind, n),)
        for kind, n in product(probed, UNSEEN_WORLDS):
            yield WORLD, ((kind, n),)
        for kind, n, _ in product(kinds_of(family, probed=False), (2, 4), range(2)):
            yield RATE, ((kind, n),)
        slow, fast = probed[-2:]
        for first, second in _MIXES:
            yield MIX, ((slow, first), (fast, second))


def nominal_s(case: Case) -> float:
    """Returns roughly what an iteration takes, by the bed's own figures; only to choose cases."""
    n = case.world_size
    compute_s = max(
        pace_of(case.model, KINDS[kind].gpu).passes_s(batch) for kind, _, batch in case.groups
    )
    rate = min(KINDS[kind].rate_mbit for kind, _, _ in case.groups) * 1e6 / 8
    layers = layers_of(case.model)
    sent = sum(layer.elements for layer in layers) * 4
    transfers = len(layers) if case.per_layer else min(len(layers), _BUCKETS_OF)
    hop_s = 1e-4 + 2.3e-3 * KINDS[case.groups[0][0]].delay_ms
    latency_s = transfers / (case.slots or transfers) * 2 * (n - 1) * hop_s
    return max(compute_s, 2 * sent * (n - 1) / n / rate + latency_s)
