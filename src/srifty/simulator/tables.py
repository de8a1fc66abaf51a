"""Many configurations and their forecasts as arrays: one row per configuration.

The planner looks at thousands of configurations, so that they live in arrays; a `ClusterConfig` is
made of the few rows that a person will read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.forecast import IterationForecast
from srifty.core.offers import Offer

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ConfigTable:
    """Cluster configurations as arrays of R rows and G VM groups.

    Attributes:
        offers: the offers that the rows refer to.
        offer: (R, G) index into `offers`; meaningless where `count` is 0.
        count: (R, G) VMs of the group; 0 for a group that the row does not have.
        samples_per_vm: (R, G) samples of one VM in one iteration.
        gpus_used: (R, G) workers per VM.
        accumulation: (R, G) passes per iteration.
    """

    offers: tuple[Offer, ...]
    offer: IntArray
    count: IntArray
    samples_per_vm: IntArray
    gpus_used: IntArray
    accumulation: IntArray

    def __len__(self) -> int:
        return len(self.count)

    @classmethod
    def from_configs(cls, configs: Sequence[ClusterConfig]) -> Self:
        """Returns the table of the given configurations, in their order."""
        offers = tuple(dict.fromkeys(g.offer for config in configs for g in config.groups))
        position = {offer: index for index, offer in enumerate(offers)}
        shape = (len(configs), max((len(config.groups) for config in configs), default=1))
        offer = np.zeros(shape, dtype=np.int64)
        count = np.zeros(shape, dtype=np.int64)
        samples = np.ones(shape, dtype=np.int64)
        gpus = np.ones(shape, dtype=np.int64)
        accumulation = np.ones(shape, dtype=np.int64)
        for row, config in enumerate(configs):
            for column, group in enumerate(config.groups):
                offer[row, column] = position[group.offer]
                count[row, column] = group.count
                samples[row, column] = group.samples_per_vm
                gpus[row, column] = group.gpus_used
                accumulation[row, column] = group.accumulation
        return cls(offers, offer, count, samples, gpus, accumulation)

    def take(self, rows: slice | IntArray) -> ConfigTable:
        """Returns the table of some rows."""
        return ConfigTable(
            self.offers,
            self.offer[rows],
            self.count[rows],
            self.samples_per_vm[rows],
            self.gpus_used[rows],
            self.accumulation[rows],
        )

    @classmethod
    def concatenate(cls, tables: Sequence[ConfigTable]) -> ConfigTable:
        """Returns the rows of several tables in one."""
        offers = tuple(dict.fromkeys(offer for table in tables for offer in table.offers))
        position = {offer: index for index, offer in enumerate(offers)}
        width = max((table.count.shape[1] for table in tables), default=1)

        def padded(values: IntArray, fill: int) -> IntArray:
            return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)

        def joined(parts: list[IntArray]) -> IntArray:
            return np.concatenate(parts) if parts else np.zeros((0, width), dtype=np.int64)

        moved = [
            np.array([position[offer] for offer in table.offers] or [0])[table.offer]
            for table in tables
        ]
        return ConfigTable(
            offers,
            joined([padded(values, 0) for values in moved]),
            joined([padded(table.count, 0) for table in tables]),
            joined([padded(table.samples_per_vm, 1) for table in tables]),
            joined([padded(table.gpus_used, 1) for table in tables]),
            joined([padded(table.accumulation, 1) for table in tables]),
        )

    def config(self, row: int) -> ClusterConfig:
        """Returns one row as a cluster configuration."""
        return ClusterConfig(
            tuple(
                VmGroup(
                    offer=self.offers[int(self.offer[row, g])],
                    count=int(self.count[row, g]),
                    samples_per_vm=int(self.samples_per_vm[row, g]),
                    gpus_used=int(self.gpus_used[row, g]),
                    accumulation=int(self.accumulation[row, g]),
                )
                for g in range(self.count.shape[1])
                if self.count[row, g] > 0
            )
        )

    def distinct(self) -> IntArray:
        """Returns the rows that no earlier row equals, in ascending order."""
        here = self.count > 0
        columns = (self.offer, self.count, self.samples_per_vm, self.gpus_used, self.accumulation)
        keys = np.concatenate([np.where(here, column, 0) for column in columns], axis=1)
        return np.sort(np.unique(keys, axis=0, return_index=True)[1])

    @property
    def world_size(self) -> IntArray:
        """(R,) workers."""
        return (self.count * self.gpus_used).sum(axis=1)

    @property
    def vms(self) -> IntArray:
        """(R,) VMs."""
        return self.count.sum(axis=1)

    @property
    def usd_per_hour(self) -> FloatArray:
        """(R,) price of all VMs for an hour."""
        prices = np.array([offer.usd_per_hour for offer in self.offers])
        return (self.count * prices[self.offer]).sum(axis=1)


@dataclass(frozen=True)
class ForecastTable:
    """Iteration forecasts as columns of R rows; see `IterationForecast` for their meaning."""

    mean_s: FloatArray
    step_std_s: FloatArray
    allocation_std_s: FloatArray
    gpu_std_s: FloatArray
    model_std_s: FloatArray
    forward_s: FloatArray
    backward_s: FloatArray
    exchange_s: FloatArray
    exposed_exchange_s: FloatArray
    optimizer_s: FloatArray
    input_s: FloatArray

    def __len__(self) -> int:
        return len(self.mean_s)

    def take(self, rows: slice | IntArray) -> ForecastTable:
        """Returns the table of some rows."""
        return ForecastTable(*(getattr(self, field.name)[rows] for field in fields(self)))

    def row(self, index: int) -> IterationForecast:
        """Returns one row."""
        return IterationForecast(
            **{field.name: float(getattr(self, field.name)[index]) for field in fields(self)}
        )

    @classmethod
    def concatenate(cls, tables: Sequence[ForecastTable]) -> ForecastTable:
        """Returns the rows of several tables in one."""
        return cls(
            **{
                field.name: np.concatenate([getattr(table, field.name) for table in tables])
                for field in fields(cls)
            }
        )

    @property
    def persistent_std_s(self) -> FloatArray:
        """(R,) standard deviation of what does not average out over a job's iterations."""
        return np.sqrt(self.allocation_std_s**2 + self.gpu_std_s**2 + self.model_std_s**2)

    @property
    def std_s(self) -> FloatArray:
        """(R,) standard deviation of one iteration's time."""
        return np.sqrt(self.step_std_s**2 + self.persistent_std_s**2)
