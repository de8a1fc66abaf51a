"""The instance types of the bed: a GPU's pace, a link's rate and latency, and a price. Pure.

A family is a network: all its types have the same one-way latency. What is *probed* is one rate per
GPU of each family; the other rates are never measured but by the runs that judge the forecasts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One emulated instance type.

    Attributes:
        name: its name, `FAMILY.SIZE`.
        gpu: the GPU that its one rank emulates.
        rate_mbit: what its link carries, Mbit/s.
        delay_ms: one-way latency of its network, milliseconds.
        usd_per_hour: a price, so that plans can be made.
        probed: whether `srifty probe` runs on it.
    """

    name: str
    gpu: str
    rate_mbit: float
    delay_ms: float
    usd_per_hour: float
    probed: bool

    @property
    def family(self) -> str:
        """The network."""
        return self.name.partition(".")[0]


# Prices in the order of EC2's for one such GPU.
_USD = {"K80": 0.9, "T4": 0.53, "V100": 3.06}
# By family: one-way latency, and (GPU, rate, whether probed). Eight links of 500 Mbit/s are half of
# what two cores carry.
_FAMILIES: dict[str, tuple[float, tuple[tuple[str, float, bool], ...]]] = {
    "near": (
        0.0,
        (
            ("K80", 100, True),
            ("T4", 200, True),
            ("V100", 500, True),
            ("T4", 400, False),
            ("V100", 300, False),
        ),
    ),
    "zone": (0.25, (("T4", 200, True), ("V100", 500, True), ("T4", 300, False))),
    "region": (1.0, (("T4", 200, True), ("V100", 500, True), ("V100", 300, False))),
    "far": (3.0, (("T4", 200, True), ("V100", 500, True), ("T4", 400, False))),
}
KINDS = {
    kind.name: kind
    for family, (delay_ms, links) in _FAMILIES.items()
    for gpu, rate, probed in links
    for kind in [Kind(f"{family}.{gpu.lower()}-{rate:g}", gpu, rate, delay_ms, _USD[gpu], probed)]
}
FAMILIES = tuple(_FAMILIES)
PROBED_WORLDS = (2, 4, 8)
UNSEEN_WORLDS = (3, 6)


def kinds_of(family: str, *, probed: bool | None = None) -> tuple[Kind, ...]:
    """Returns the types of a family.

    Args:
        family: one of `FAMILIES`.
        probed: only those that are probed, or are not; None: all.
    """
    return tuple(
        kind for kind in KINDS.values() if kind.family == family and probed in (None, kind.probed)
    )
