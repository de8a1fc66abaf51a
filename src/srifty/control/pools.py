"""What is known of the pools that VMs come from: which are dry, and how long VMs last there.

After a reclaim a pool gets no new requests for a cool-down; VMs that are still held there are kept.
The paper's cool-down is the rest of the job. Public traces say that an outage lasts 0.5 h at the
median and 4.5 h at the 90th percentile; since a request that fails costs nothing, the default asks
again much sooner, and less often each time it asks in vain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from srifty.core._checks import require, require_positive
from srifty.core.events import LaunchFailure, Pool, VmEvent, VmEventKind
from srifty.core.offers import Market

_REST_OF_THE_JOB = math.inf


@dataclass(frozen=True, slots=True)
class PoolRule:
    """How pools are judged.

    Attributes:
        cooldown_s: seconds without new requests after a reclaim; infinite: the rest of the job.
        retry_s: seconds without new requests after one that found no capacity, the first time.
        retry_growth: factor on it each time in a row.
        longest_retry_s: seconds that such a pause lasts at most.
        lasting_s: seconds for which VMs last in a pool nothing is known of (mean).
        lasting_weight: reclaims that this guess counts for.
    """

    cooldown_s: float = 60.0
    retry_s: float = 60.0
    retry_growth: float = 1.0
    longest_retry_s: float = 300.0
    lasting_s: float = 7200.0
    lasting_weight: float = 1.0

    def __post_init__(self) -> None:
        for name in ("retry_s", "longest_retry_s", "lasting_s", "lasting_weight"):
            require_positive(f"pools: {name}", getattr(self, name))
        require(self.cooldown_s >= 0, f"pools: cooldown_s must be 0 or more: {self.cooldown_s}")
        require(self.retry_growth >= 1, f"pools: retry_growth must be >= 1: {self.retry_growth}")


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """What is known of one pool.

    Attributes:
        closed_until_s: seconds since the command until which it gets no new requests.
        failures: requests in a row that found no capacity.
        reclaims: how often VMs were taken back; those of one moment count once.
        reclaimed_at_s: when that happened last; −inf: never.
        vms: VMs that are held.
        held_s: seconds for which some were held, up to `held_since_s`.
        held_since_s: since when `vms` are held, as far as `held_s` does not count it.
    """

    closed_until_s: float = -math.inf
    failures: int = 0
    reclaims: int = 0
    reclaimed_at_s: float = -math.inf
    vms: frozenset[str] = frozenset()
    held_s: float = 0.0
    held_since_s: float = 0.0

    def at(self, now_s: float) -> PoolRecord:
        """Returns the record with all time held up to now counted."""
        held_s = self.held_s + (now_s - self.held_since_s if self.vms else 0.0)
        return replace(self, held_s=held_s, held_since_s=now_s)


@dataclass(frozen=True, slots=True)
class Pools:
    """What is known of all pools.

    Attributes:
        records: by pool; those without an entry are open.
    """

    records: Mapping[Pool, PoolRecord] = field(default_factory=dict[Pool, PoolRecord])

    def is_open(self, pool: Pool, now_s: float) -> bool:
        """Whether new VMs may be asked for."""
        record = self.records.get(pool)
        return record is None or now_s >= record.closed_until_s

    def is_lost(self, pool: Pool) -> bool:
        """Whether it will get no requests for the rest of the job."""
        record = self.records.get(pool)
        return record is not None and record.closed_until_s == _REST_OF_THE_JOB

    def next_opening_s(self, now_s: float) -> float:
        """Returns when the next closed pool opens; infinite where none will."""
        later = (r.closed_until_s for r in self.records.values() if r.closed_until_s > now_s)
        return min(later, default=math.inf)

    def lasting_s(self, pool: Pool, now_s: float, rule: PoolRule) -> float:
        """Returns for how long VMs of a pool are expected to last from now on.

        The mean of a Gamma-Poisson model, `(w·guess + time held) / (w + reclaims)`: with
        exponential times the expectation does not depend on how long VMs were held already.
        """
        if pool.market is not Market.SPOT:
            return math.inf
        record = self.records.get(pool, PoolRecord()).at(now_s)
        return (rule.lasting_weight * rule.lasting_s + record.held_s) / (
            rule.lasting_weight + record.reclaims
        )

    def after(self, event: VmEvent, rule: PoolRule) -> Pools:
        """Returns what is known after one more event.

        A failed launch is judged by its kind: lack of capacity and throttling pass, all else (not
        offered there, quota, permission, unknown) stays for the rest of the job. A spot VM that
        vanishes without a word counts as taken back.
        """
        record = self.records.get(event.pool, PoolRecord())
        if event.kind in (VmEventKind.LAUNCHED, VmEventKind.RECOVERED):
            record = record.at(event.at_s)
            record = replace(record, failures=0, vms=record.vms | {event.vm})
        elif event.kind is VmEventKind.FAILED:
            record = _failed(record, event, rule)
        elif event.kind is VmEventKind.NOTICE:
            record = _closed(record, event.at_s + rule.cooldown_s)
        elif event.pool.market is Market.SPOT:
            record = _reclaimed(record, event, rule)
        return Pools({**self.records, event.pool: record})

    def released(self, pool: Pool, vm: str, at_s: float) -> Pools:
        """Returns what is known after the run itself let a VM go."""
        record = self.records.get(pool, PoolRecord()).at(at_s)
        return Pools({**self.records, pool: replace(record, vms=record.vms - {vm})})


# Reclaims of one pool that lie closer together than this are one shortage.
_TOGETHER_S = 30.0


def _closed(record: PoolRecord, until_s: float) -> PoolRecord:
    """Returns a record of a pool that gets no new requests until then."""
    return replace(record, closed_until_s=max(record.closed_until_s, until_s))


def _reclaimed(record: PoolRecord, event: VmEvent, rule: PoolRule) -> PoolRecord:
    """Returns a record after a VM was taken back."""
    counted = event.at_s - record.reclaimed_at_s >= _TOGETHER_S
    return replace(
        _closed(record.at(event.at_s), event.at_s + rule.cooldown_s),
        reclaims=record.reclaims + counted,
        reclaimed_at_s=event.at_s,
        vms=record.vms - {event.vm},
    )


def _failed(record: PoolRecord, event: VmEvent, rule: PoolRule) -> PoolRecord:
    """Returns a record after a launch that failed."""
    if event.failure in (LaunchFailure.CAPACITY, LaunchFailure.THROTTLED):
        pause_s = min(
            rule.retry_s * rule.retry_growth ** min(record.failures, 100), rule.longest_retry_s
        )
        return replace(_closed(record, event.at_s + pause_s), failures=record.failures + 1)
    return _closed(record, _REST_OF_THE_JOB)
