"""Which batch sizes fit, by real trials; what a journal knows is not tried again (torch)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from srifty.core.profile import MaxBatchEvidence
from srifty.errors import InputError
from srifty.profiling.device import Device
from srifty.profiling.isolated import IsolatedTrials
from srifty.profiling.journal import Journal, outcome_of
from srifty.profiling.limit import BatchLimit, find_limit
from srifty.profiling.outcome import Outcome, Verdict
from srifty.profiling.trial import InProcessTrials, TrialSettings, bounds_of
from srifty.profiling.workload import Workload

_SHARED_PROCESS = (
    "The trials shared one process, because the factory was not named: what a failed one leaves in "
    "the GPU's memory may make the largest batch smaller than it could be."
)


@dataclass(frozen=True)
class SizeRange:
    """The batch sizes that fit.

    Attributes:
        min_batch: smallest usable one.
        max_batch: largest that fits with a margin, or that was tried.
        evidence: how that is known.
        verified_batches: those that were run in full.
        peak_memory_bytes: peak memory by batch, where measured.
        notes: what the search found.
    """

    min_batch: int
    max_batch: int
    evidence: MaxBatchEvidence
    verified_batches: tuple[int, ...] = ()
    peak_memory_bytes: dict[int, int] = field(default_factory=dict[int, int])
    notes: tuple[str, ...] = ()


def find_sizes(
    workload: Workload,
    device: Device,
    settings: TrialSettings,
    journal: Journal,
    *,
    most: int | None,
    search_s: float,
    slow_start_s: float,
    reference: str | None,
    isolate: bool | None = None,
) -> SizeRange:
    """Returns the batch sizes that fit.

    Args:
        workload: what to train; it is as before afterwards.
        device: where.
        settings: how a size is tried.
        journal: what was tried earlier, and where outcomes are kept.
        most: the user's cap; None: none.
        search_s: seconds for all trials.
        slow_start_s: the same where most of a trial is its start: a process, or compilation.
        reference: the factory's `MODULE:FACTORY`; trials in processes of their own need it.
        isolate: whether trials get processes of their own; None: on GPUs, where the factory is
            named.

    Raises:
        InputError: no batch fits, or trials are to be isolated and the factory is not named.
    """
    apart = isolate if isolate is not None else device.kind != "cpu" and reference is not None
    if apart and reference is None:
        raise InputError("trials in processes of their own need the factory's MODULE:FACTORY")
    trials: Callable[[int], Outcome] = (
        IsolatedTrials(reference, str(device.place), settings)
        if apart and reference is not None
        else InProcessTrials(workload, device, settings)
    )
    known = {outcome.batch: outcome for outcome in map(outcome_of, journal.all("trial"))}
    # An error may be mended by now.
    known = {b: o for b, o in known.items() if o.verdict is not Verdict.OTHER_ERROR}

    def try_batch(batch: int) -> Outcome:
        if batch in known:
            return known[batch]
        outcome = trials(batch)
        journal.add("trial", asdict(outcome) | {"verdict": outcome.verdict.value})
        return outcome

    limit = find_limit(
        try_batch,
        bounds_of(workload, device, most, isolated=apart),
        least_steps=settings.total_steps,
        seconds=slow_start_s if apart or settings.compiled else search_s,
    )
    if not limit.is_usable:
        raise InputError(f"no batch can be trained; {limit.reason}", reference or workload.name)
    notes = limit.notes
    if device.kind != "cpu" and not apart:
        notes = (*notes, _SHARED_PROCESS)
    return _range(limit, notes)


def _range(limit: BatchLimit, notes: tuple[str, ...]) -> SizeRange:
    return SizeRange(
        min_batch=limit.min_batch,
        max_batch=limit.max_batch,
        evidence=limit.evidence,
        verified_batches=limit.verified_batches,
        peak_memory_bytes={b: p for b, p in limit.peak_memory_bytes.items() if p > 0},
        notes=notes,
    )
