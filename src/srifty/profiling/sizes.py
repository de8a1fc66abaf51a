"""Which batch sizes fit, by real trials; what a journal knows is not tried again (torch)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from srifty.core.profile import MaxBatchEvidence
from srifty.errors import InputError
from srifty.profiling.device import Device
from srifty.profiling.isolated import IsolatedTrials
from srifty.profiling.journal import Journal, outcome_of
from srifty.profiling.limit import BatchLimit, find_limit
from srifty.profiling.outcome import Outcome, Verdict
from srifty.profiling.placement import candidate_sizes
from srifty.profiling.trial import InProcessTrials, TrialSettings, bounds_of
from srifty.profiling.workload import Workload

_SHARED_PROCESS = (
    "The trials shared one process, because the factory was not named: what a failed one leaves in "
    "the GPU's memory may make the largest batch smaller than it could be."
)

# What is left of the time for a trial that was foreseen to end in it.
_LEAST_S = 1e-3


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
        finite: whether all losses were numbers.
    """

    min_batch: int
    max_batch: int
    evidence: MaxBatchEvidence
    verified_batches: tuple[int, ...] = ()
    peak_memory_bytes: dict[int, int] = field(default_factory=dict[int, int])
    notes: tuple[str, ...] = ()
    finite: bool = True


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
    trials = (
        IsolatedTrials(reference, str(device.place), settings)
        if apart and reference is not None
        else InProcessTrials(workload, device, settings)
    )
    known = {outcome.batch: outcome for outcome in map(outcome_of, journal.all("trial"))}
    # An error may be mended by now, and there may be more time.
    known = {b: o for b, o in known.items() if not o.verdict.is_tried_again}
    seconds = slow_start_s if apart or settings.compiled else search_s
    taken: list[Outcome] = []

    def try_batch(batch: int) -> Outcome:
        outcome = known[batch] if batch in known else tried(batch)
        taken.append(outcome)
        return outcome

    def tried(batch: int) -> Outcome:
        # Without the smallest batch there is nothing to tell; all others must end in time.
        begun = any(outcome.fits for outcome in taken)
        left_s = max(seconds - sum(outcome.seconds for outcome in taken), _LEAST_S)
        outcome = trials(batch, left_s) if begun else trials(batch)
        journal.add("trial", asdict(outcome) | {"verdict": outcome.verdict.value})
        return outcome

    limit = find_limit(
        try_batch,
        bounds_of(workload, device, most, isolated=apart),
        least_steps=settings.total_steps,
        seconds=seconds,
    )
    if not limit.is_usable:
        raise InputError(_why_none(limit, workload.name), reference or workload.name)
    notes = (*limit.notes, *_wrong_batches(workload, limit), *_not_finite(limit))
    if device.kind != "cpu" and not apart:
        notes = (*notes, _SHARED_PROCESS)
    return _range(limit, notes)


def _why_none(limit: BatchLimit, workload: str) -> str:
    """Returns why no batch can be trained; an error in the user's code speaks for itself."""
    last = limit.outcomes[-1]
    if last.verdict is Verdict.OTHER_ERROR:
        return last.message.removeprefix(f"{workload}: ")
    return f"no batch can be trained: {last.sentence}"


def _wrong_batches(workload: Workload, limit: BatchLimit) -> tuple[str, ...]:
    """Returns a note on further sizes, up to one that failed, for which `make_batch` is wrong."""
    failed = [one.batch for one in limit.outcomes if one.verdict is Verdict.OTHER_ERROR]
    if not failed:
        return ()
    known = {outcome.batch for outcome in limit.outcomes}
    others = [size for size in candidate_sizes(1, max(failed)) if size not in known]
    try:
        workload.check_batches(others)
    except InputError as error:
        return (f"That was not all: {error.problems[0]}.",)
    return ()


def _not_finite(limit: BatchLimit) -> tuple[str, ...]:
    sizes = [str(one.batch) for one in limit.outcomes if one.fits and not one.finite]
    if not sizes:
        return ()
    return (
        f"The loss was nan or infinite at {', '.join(sizes)}: steps take as long as with numbers, "
        "but look at data, loss and learning rate before you train.",
    )


def _range(limit: BatchLimit, notes: tuple[str, ...]) -> SizeRange:
    return SizeRange(
        min_batch=limit.min_batch,
        max_batch=limit.max_batch,
        evidence=limit.evidence,
        verified_batches=limit.verified_batches,
        peak_memory_bytes={b: p for b, p in limit.peak_memory_bytes.items() if p > 0},
        notes=notes,
        finite=all(outcome.finite for outcome in limit.outcomes if outcome.fits),
    )
