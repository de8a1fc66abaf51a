"""What a run has cost so far, and when its money is spent."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.control.ledger import Ledger
from srifty.core.cluster import ClusterConfig
from srifty.core.job import Job

_S_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Account:
    """A run's money.

    Attributes:
        ledger: of the run; knows what its VMs cost.
        job: knows what else costs, and how much may be spent.
    """

    ledger: Ledger
    job: Job

    def spent_usd(self, now_s: float) -> float:
        """Returns dollars up to a time, total for this run."""
        return self.ledger.bill(now_s).usd + self.job.extra_usd_per_hour * now_s / _S_PER_HOUR

    def usd_per_hour(self, config: ClusterConfig) -> float:
        """Returns what an hour on a configuration costs, all included."""
        return config.usd_per_hour + self.job.extra_usd_per_hour

    def is_spent(self, now_s: float, save_s: float) -> bool:
        """Whether the money would not last for longer than saving takes.

        Args:
            now_s: seconds since the command.
            save_s: seconds that it takes to save and to stop.
        """
        budget_usd = self.job.limits.budget_usd
        if budget_usd is None:
            return False
        usd_per_hour = self.ledger.bill(now_s).usd_per_hour + self.job.extra_usd_per_hour
        return self.spent_usd(now_s) + usd_per_hour * save_s / _S_PER_HOUR >= budget_usd
