"""How much of the test runs: smoke, short or full. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.testbed.campaign import Plan
from benchmarks.testbed.cases import MIX, PROBED, RATE, WORLD, Case, all_cases, short_cases
from benchmarks.testbed.kinds import PROBED_WORLDS
from benchmarks.testbed.variance import Variation

_VARIED_FAMILY = "zone"
_SHORT_FAMILIES = ("near", "region")


@dataclass(frozen=True)
class Campaigns:
    """What to do without and with injected variance.

    Attributes:
        steady: all VMs are equal.
        varied: VMs and steps are drawn; None: left out.
    """

    steady: Plan
    varied: Plan | None


def smoke() -> Campaigns:
    """Returns four processes, one network, two runs: under a minute."""
    kind = "near.v100-500"
    cases = (
        Case(PROBED, "alexnet", ((kind, 4, 32),), per_layer=False, slots=2),
        Case(PROBED, "dlrm", ((kind, 4, 64),), per_layer=True, slots=1),
    )
    return Campaigns(
        Plan(cases, 4, (4,), probe_s=6.0, profile_s=8.0, iterations=5, repeats=1), None
    )


def short() -> Campaigns:
    """Returns two networks with up to four ranks: under ten minutes."""
    few = [c for c in all_cases() if c.family in _SHORT_FAMILIES and c.world_size <= 4]
    cases: list[Case] = []
    for part in (PROBED, WORLD, RATE, MIX):
        light = [c for c in few if c.part == part and c.model in ("resnet18", "alexnet", "dlrm")]
        cases += short_cases(light, 8 if part == PROBED else 4)
    return Campaigns(
        Plan(tuple(cases), 4, (2, 4), probe_s=15.0, profile_s=30.0, iterations=10), None
    )


def full(variation: Variation) -> Campaigns:
    """Returns all of it.

    Args:
        variation: what VMs and steps are drawn from.
    """
    first = all_cases()
    known = {case.label for case in first}
    # Half of a second draw of models and ways, as far as two cores carry its ranks.
    second = [c for c in all_cases(seed=1) if c.label not in known and c.world_size <= 4]
    steady = Plan((*first, *second[::2]), 8, PROBED_WORLDS)
    # Other draws of the seed give other models and ways for the same network.
    drawn = {
        case.label: case
        for seed in range(5)
        for case in all_cases(seed=seed)
        if case.family == _VARIED_FAMILY and case.part != RATE and case.world_size <= 4
    }
    varied = replace(
        steady,
        cases=tuple(drawn.values()),
        worlds=(2, 4),
        probe_s=6.0,
        profile_s=50.0,
        repeats=1,
        iterations=24,
        variation=variation,
        allocations=16,
    )
    return Campaigns(steady, varied)
