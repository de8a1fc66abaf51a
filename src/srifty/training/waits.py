"""How long the exchange of gradients keeps a worker waiting, as DistributedDataParallel times it.

In a synchronous step the slowest worker waits least, since it comes last. So a worker's time apart
from this waiting is its own, and one slow worker can be told from a slow network.
"""

from __future__ import annotations

from typing import Any, Self

# Steps from one measurement to the next, after as many that are all measured: on a GPU, measuring
# waits for the work of the step before.
_EVERY = 10
# Steps that arrange buckets and load libraries.
_WARM_UP = 3

_NS_PER_S = 1e9


class Waits:
    """Measures one model's exchanges.

    Args:
        parallel: a DistributedDataParallel that measures some of its steps.
    """

    def __init__(self, parallel: Any) -> None:
        self._parallel = parallel

    @classmethod
    def of(cls, parallel: Any) -> Self | None:
        """Returns what measures a DistributedDataParallel; None where this torch does not."""
        # Underscored, but all that torch offers: its own timers of each backward pass.
        if not hasattr(parallel, "_get_ddp_logging_data"):
            return None
        parallel._set_ddp_runtime_logging_sample_rate(_EVERY)
        return cls(parallel)

    def after(self, made: int) -> float | None:
        """Returns the seconds after computation in the step before last; None: not measured.

        Args:
            made: steps that were made before the last.
        """
        if made < _WARM_UP or (made > _EVERY and made % _EVERY):
            return None
        said: dict[str, Any] = self._parallel._get_ddp_logging_data()
        exchange = said.get("backward_comm_time")
        hidden = said.get("backward_compute_comm_overlap_time")
        if exchange is None or hidden is None:
            return None
        return max(exchange - hidden, 0) / _NS_PER_S
