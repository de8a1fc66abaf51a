"""One workload on the device at hand → a `WorkloadProfile` (torch)."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from srifty._torch import torch
from srifty.core.profile import BatchLatency, GradientSchedule, Item, WorkloadProfile
from srifty.errors import InputError
from srifty.profiling.blame import blamed_on
from srifty.profiling.device import Device, find_device, move_to
from srifty.profiling.gradients import measure_gradients, measure_overhead
from srifty.profiling.input_rate import measure_input_rate
from srifty.profiling.journal import Journal
from srifty.profiling.options import Options
from srifty.profiling.placement import (
    Fit,
    candidate_sizes,
    chords,
    geometric_probes,
    place_probes,
)
from srifty.profiling.scouting import MOST_STEPS, PASSES, scout
from srifty.profiling.sizes import SizeRange, find_sizes
from srifty.profiling.state import snapshot
from srifty.profiling.steps import StepRunner, compiled_anew
from srifty.profiling.timing import (
    BatchTiming,
    Chunk,
    Effort,
    Stopwatch,
    chunk_steps,
    is_enough,
    summarise,
)
from srifty.profiling.timing_notes import timing_notes
from srifty.profiling.trial import TrialSettings
from srifty.profiling.workload import Workload, tensors_of

# How the time is shared out: the search for the largest batch, scouting; timing gets the rest.
_SEARCH_SHARE, _SCOUT_SHARE = 0.35, 0.2
_LEAST_ROUNDS = 3
_INPUT_SECONDS = 5.0
# From this batch on, ready times as fractions of the backward pass hold for other batches too.
_STEADY_READY = 16


@dataclass
class _Findings:
    """What the parts of a profile add up to."""

    notes: list[str] = field(default_factory=list[str])
    compile_s: list[float] = field(default_factory=list[float])


def profile(
    workload: Workload,
    device: Device | None = None,
    options: Options | None = None,
    *,
    fit: Fit = chords,
    journal_path: Path | None = None,
    resume: bool = True,
    reference: str | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> WorkloadProfile:
    """Returns the profile of a workload, and leaves the workload as it was.

    Args:
        workload: what to train.
        device: where; None: a GPU where there is one.
        options: how.
        fit: the model that will read the latencies; probes are placed where it needs them.
        journal_path: where findings are kept until the profile is complete; None: nowhere.
        resume: whether to go on from what the journal holds.
        reference: the factory's `MODULE:FACTORY`, for trials in processes of their own.
        progress: told which fraction of the work is done.

    Raises:
        InputError: the user's code fails, or the options contradict what is found.
        ProfileFailed: the workload could not be put back as it was.
    """
    device, options = device or find_device(), options or Options()
    home = next(workload.model.parameters()).device
    kept = snapshot(workload)
    journal = Journal(journal_path, _settings(workload, device, options), resume=resume)
    try:
        found = _measure(workload, device, options, fit, journal, reference, progress)
    finally:
        move_to(workload.model, home)
        kept.restore()
    kept.verify()
    journal.close()
    progress(1.0)
    return found


def _measure(
    workload: Workload,
    device: Device,
    options: Options,
    fit: Fit,
    journal: Journal,
    reference: str | None,
    progress: Callable[[float], None],
) -> WorkloadProfile:
    findings = _Findings()
    if journal.resumed:
        findings.notes.append("Measured in several runs: an earlier one was interrupted.")
    sizes = find_sizes(
        workload,
        device,
        TrialSettings(options.precision, options.accumulation, compiled=options.compiled),
        journal,
        most=options.max_batch or max(options.batch_sizes, default=None),
        search_s=_SEARCH_SHARE * options.seconds,
        slow_start_s=options.seconds,
        reference=reference,
        isolate=options.isolate,
    )
    progress(_SEARCH_SHARE)
    runner = StepRunner(
        workload, device, options.precision, options.accumulation, compiled=options.compiled
    )
    stopwatch = Stopwatch(runner)
    with blamed_on(workload.name, "training"):
        chosen = _choose(stopwatch, sizes, options, fit, journal, findings)
        progress(_SEARCH_SHARE + _SCOUT_SHARE)
        timings = _time(stopwatch, chosen, options, journal, findings, progress)
        gradients = _gradients(runner, timings, findings)
    return _profile(workload, device, options, sizes, timings, gradients, findings)


def _choose(
    stopwatch: Stopwatch,
    sizes: SizeRange,
    options: Options,
    fit: Fit,
    journal: Journal,
    findings: _Findings,
) -> tuple[int, ...]:
    """Returns the batch sizes to time."""
    if options.batch_sizes:
        outside = [b for b in options.batch_sizes if not sizes.min_batch <= b <= sizes.max_batch]
        if outside:
            raise InputError(
                f"{outside[0]} does not fit, or was not tried: batches of {sizes.min_batch} to "
                f"{sizes.max_batch} fit. {sizes.notes[0]}",
                "--batch-sizes",
            )
        return tuple(sorted(set(options.batch_sizes)))
    known = journal.last("chosen")
    if known is not None:
        findings.notes.append(known["note"])
        return tuple(known["batches"])
    candidates = candidate_sizes(sizes.min_batch, sizes.max_batch)
    seen = ()
    if not options.compiled and len(candidates) > options.probes:
        # Every size that a compiled model meets is compiled anew: too dear for a look.
        seconds = _SCOUT_SHARE * options.seconds
        stopwatch.warm_up(candidates[0])
        seen = scout(stopwatch, candidates, seconds=seconds, journal=journal)
    if seen:
        placement = place_probes(seen, options.probes, fit)
        chosen = placement.batches
        note = (
            f"{len(candidates)} batch sizes were run for at most {PASSES} times {MOST_STEPS} steps "
            f"each to place the {len(chosen)} that were timed; the curve through these was within "
            f"{placement.scouted_error:.1%} of the others on average."
        )
    else:
        chosen = geometric_probes(candidates, options.probes)
        note = "The timed batch sizes are spread evenly by ratio; no others were run to place them."
    journal.add("chosen", {"batches": list(chosen), "note": note})
    findings.notes.append(note)
    return chosen


def _time(
    stopwatch: Stopwatch,
    sizes: Sequence[int],
    options: Options,
    journal: Journal,
    findings: _Findings,
    progress: Callable[[float], None],
) -> tuple[BatchTiming, ...]:
    """Returns the timings of the sizes: in turn, so that a drift of the machine touches all."""
    device = stopwatch.runner.device
    effort = Effort(
        precision=options.error, seconds=(1 - _SEARCH_SHARE - _SCOUT_SHARE) * options.seconds
    )
    chunks: dict[int, list[Chunk]] = {size: [] for size in sizes}
    for chunk in journal.chunks():
        chunks.setdefault(chunk.batch, []).append(chunk)
    began_s = device.host_s()
    step_s: dict[int, float] = {}
    for index, size in enumerate(sizes):
        # Trials have compiled these sizes before; one is compiled anew to know what that takes.
        with compiled_anew() if options.compiled and index == 0 else nullcontext():
            first_s, step_s[size] = stopwatch.warm_up(size)
        findings.compile_s.append(max(first_s - step_s[size], 0.0))
    while True:
        timings = {size: summarise(chunks[size]) for size in sizes if chunks[size]}
        late = device.host_s() - began_s > effort.seconds
        missing = [
            size
            for size in sizes
            if size not in timings
            or len(chunks[size]) < _LEAST_ROUNDS
            or timings[size].steps < effort.least_steps
            or not (late or is_enough(timings[size], effort))
        ]
        progress(_progress(timings, sizes, effort))
        if not missing:
            return tuple(timings[size] for size in sizes)
        for size in missing:
            least = math.ceil(effort.least_steps / _LEAST_ROUNDS)
            chunk = stopwatch.chunk(size, max(least, chunk_steps(step_s[size])))
            chunks[size].append(chunk)
            journal.add_chunk(chunk)


def _gradients(
    runner: StepRunner, timings: Sequence[BatchTiming], findings: _Findings
) -> GradientSchedule:
    """Returns when gradients are ready, at the smallest timed size from which that is steady."""
    sizes = [timing.batch for timing in timings]
    size = min((size for size in sizes if size >= _STEADY_READY), default=max(sizes))
    batch = runner.device.move(runner.workload.batch_of(size))
    found = measure_gradients(runner, batch)
    overhead = measure_overhead(runner, batch)
    findings.notes += [
        f"Gradients were timed at batch {size}; the hooks cost {overhead.fraction:+.1%} "
        f"(± {overhead.std:.1%}) of a step, and are not in the latencies.",
        *found.notes,
    ]
    return found.schedule


def _progress(timings: dict[int, BatchTiming], sizes: Sequence[int], effort: Effort) -> float:
    """Returns the fraction of the work that is done, by how precise each size is known."""
    done = 0.0
    for timing in timings.values():
        steps = min(1.0, timing.steps / effort.least_steps)
        # Errors fall with the root of the steps.
        done += steps * min(1.0, (effort.precision / max(timing.error, 1e-9)) ** 2)
    begun = _SEARCH_SHARE + _SCOUT_SHARE
    return begun + (1 - begun) * 0.95 * done / len(sizes)


def _profile(
    workload: Workload,
    device: Device,
    options: Options,
    sizes: SizeRange,
    timings: Sequence[BatchTiming],
    gradients: GradientSchedule,
    findings: _Findings,
) -> WorkloadProfile:
    rate = None
    if workload.loader is not None:
        rate = measure_input_rate(workload.loader, workload.name, seconds=_INPUT_SECONDS)
    return WorkloadProfile(
        workload=workload.name,
        gpu=options.gpu or device.name,
        precision=options.precision,
        latencies=tuple(
            BatchLatency(
                batch=timing.batch,
                forward_s=timing.forward_s,
                backward_s=timing.backward_s,
                optimizer_s=timing.optimizer_s,
                std_s=timing.std_s,
                steps=timing.steps,
            )
            for timing in timings
        ),
        gradients=gradients,
        max_batch=sizes.max_batch,
        max_batch_evidence=sizes.evidence,
        min_batch=sizes.min_batch,
        verified_batches=sizes.verified_batches,
        peak_memory_bytes=sizes.peak_memory_bytes,
        input_samples_per_s_per_vcpu=None if rate is None else rate.samples_per_s_per_vcpu,
        item=Item(workload.unit, workload.seq_len),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        source=f"srifty profile on {device.name}",
        software=_software(device),
        compile_s=max(findings.compile_s) if options.compiled else None,
        notes=(
            *sizes.notes,
            *findings.notes,
            *timing_notes(timings, options.error),
            *_input_notes(workload),
        ),
    )


def _input_notes(workload: Workload) -> tuple[str, ...]:
    if workload.loader is None:
        return ("No loader was given: input is assumed free.",)
    return ()


def _software(device: Device) -> dict[str, str]:
    found = {"torch": str(torch.__version__), "python": platform.python_version()}
    if device.kind == "cuda":
        found["cuda"] = str(torch.version.cuda or torch.version.hip)
        found["cudnn"] = str(torch.backends.cudnn.version())
    else:
        found["threads"] = str(torch.get_num_threads())
    return found


def _batch_shapes(workload: Workload) -> list[str]:
    """Returns shape and type of what a batch of two holds: other data are another workload."""
    with torch.random.fork_rng(), blamed_on(workload.name, "making a batch of 2"):
        torch.manual_seed(0)  # random lengths come out alike each time
        return [f"{list(t.shape)} {t.dtype}" for t in tensors_of(workload.make_batch(2))]


def _settings(workload: Workload, device: Device, options: Options) -> dict[str, Any]:
    """Returns what measurements must have in common to stand in one profile."""
    chosen = asdict(options) | {"batch_sizes": list(options.batch_sizes)}
    for matters_not in ("seconds", "error", "gpu"):
        del chosen[matters_not]
    return {
        "workload": workload.name,
        "parameters": [list(p.shape) for p in workload.model.parameters()],
        "batch": _batch_shapes(workload),
        "device": device.name,
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        **chosen,
    }
