"""Which part makes a run slow: one VM, the network, or every worker alike.

Workers of one step wait for each other in the exchange. A slow VM therefore shows a long compute
time of its own, and long *exchange* times of all the others; whoever comes last waits for nobody,
so the shortest exchange of all workers is what the network itself takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from srifty.core._checks import require
from srifty.core.events import WorkerStep
from srifty.core.forecast import IterationForecast


class Culprit(StrEnum):
    """What makes iterations longer than forecast."""

    NOTHING = "nothing"
    VM = "one VM"
    NETWORK = "the network"
    ALL_WORKERS = "all workers alike"


@dataclass(frozen=True, slots=True)
class Blame:
    """What a slow-down comes from.

    Attributes:
        culprit: what is to blame.
        vm: the VM, where it is one.
        excess_s: seconds of an iteration beyond the forecast.
        vm_excess_s: seconds of them that the slowest VM alone brings in.
        network_excess_s: seconds of them that the exchange itself takes longer.
    """

    culprit: Culprit
    vm: str | None
    excess_s: float
    vm_excess_s: float
    network_excess_s: float

    def is_same(self, other: Blame | None) -> bool:
        """Whether the same is blamed."""
        return other is not None and (self.culprit, self.vm) == (other.culprit, other.vm)

    def __str__(self) -> str:
        words = {
            Culprit.NOTHING: "no part of a step takes much longer than was forecast",
            Culprit.VM: f"{self.vm} is slow: it computes {self.vm_excess_s:.3g} s longer than the "
            "others in each step",
            Culprit.NETWORK: f"the network is slow: the exchange takes {self.network_excess_s:.3g} "
            "s longer than was forecast in each step, for all VMs alike",
            Culprit.ALL_WORKERS: f"all workers are slow alike: a step takes {self.excess_s:.3g} s "
            "longer than was forecast",
        }
        return words[self.culprit]


# A smaller part of an iteration than this is within the error of forecasts.
_LEAST_EXCESS = 0.10


def blame(steps: Sequence[WorkerStep], forecast: IterationForecast) -> Blame:
    """Returns what makes a run slower than forecast.

    The iteration is `max compute + min exchange`. A VM's excess is how far its slowest worker lies
    above the slowest worker of the other VMs, as far as that is beyond the forecast; shares of the
    batch are meant to keep all types level, so that they compare.

    Args:
        steps: where each worker's time goes, one entry per worker.
        forecast: what was expected of an iteration.
    """
    require(bool(steps), "nobody can be blamed without a report of any worker")
    by_vm: dict[str, float] = {}
    for step in steps:
        by_vm[step.vm] = max(by_vm.get(step.vm, 0.0), step.compute_s)
    slowest = max(by_vm, key=lambda vm: by_vm[vm])
    others = [compute_s for vm, compute_s in by_vm.items() if vm != slowest]
    expected_s = forecast.forward_s + forecast.backward_s + forecast.optimizer_s
    expected_s = max(expected_s, forecast.input_s)
    level_s = max(others, default=by_vm[slowest])
    network_s = min(step.exchange_s for step in steps) - forecast.exposed_exchange_s
    compute_s = by_vm[slowest] - expected_s
    alone_s = by_vm[slowest] - max(level_s, expected_s)
    excess_s = compute_s + network_s
    if excess_s < _LEAST_EXCESS * forecast.mean_s:
        culprit = Culprit.NOTHING
    elif 2 * alone_s >= excess_s:
        culprit = Culprit.VM
    elif 2 * network_s >= excess_s:
        culprit = Culprit.NETWORK
    else:
        culprit = Culprit.ALL_WORKERS
    return Blame(culprit, slowest if culprit is Culprit.VM else None, excess_s, alone_s, network_s)
