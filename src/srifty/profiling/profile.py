"""One workload on the device at hand → a `WorkloadProfile` (torch)."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from srifty.core.profile import BatchLatency, GradientSchedule, Item, WorkloadProfile
from srifty.errors import InputError, SriftyError
from srifty.profiling._torch import torch
from srifty.profiling.blame import blamed_on
from srifty.profiling.device import Device, find_device, move_to
from srifty.profiling.gradient_sizes import time_gradients
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
from srifty.profiling.rounds import time_in_turn
from srifty.profiling.scouting import MOST_STEPS, PASSES, scout
from srifty.profiling.sizes import SizeRange, find_sizes
from srifty.profiling.state import snapshot
from srifty.profiling.steps import StepRunner
from srifty.profiling.timing import BatchTiming, Effort, Stopwatch
from srifty.profiling.timing_notes import timing_notes
from srifty.profiling.trial import TrialSettings
from srifty.profiling.workload import Workload, tensors_of
from srifty.units import format_duration

# How the time is shared out: the search for the largest batch, scouting, gradients; timing gets
# the rest, and the loader's seconds are taken off that.
_SEARCH_SHARE, _SCOUT_SHARE, _GRADIENT_SHARE = 0.35, 0.2, 0.15
_INPUT_SHARE, _LEAST_INPUT_S, _MOST_INPUT_S = 0.1, 0.5, 5.0


@dataclass
class _Findings:
    """What the parts of a profile add up to."""

    notes: list[str] = field(default_factory=list[str])
    cut: list[str] = field(default_factory=list[str])
    compile_s: tuple[float, ...] = ()


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
    _check_sizes(workload, options)
    home = next(workload.model.parameters()).device
    kept = snapshot(workload)
    journal = Journal(journal_path, _settings(workload, device, options), resume=resume)
    try:
        found = _measure(workload, device, options, fit, journal, reference, progress)
    except SriftyError as error:
        if journal.kept_at is not None:
            error.add_note(
                f"what was measured is kept in {journal.kept_at}; mend this, and the same command "
                "goes on from there"
            )
        raise
    finally:
        if journal.kept_at is None:
            journal.close()
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
    began_s = device.host_s()
    # First, for it is quick, and a loader that fails is best known before minutes are spent.
    rate = _input_rate(workload, options, journal)
    input_s = device.host_s() - began_s
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
    end_s = device.host_s() + (1 - _SEARCH_SHARE) * options.seconds - input_s
    runner = StepRunner(
        workload, device, options.precision, options.accumulation, compiled=options.compiled
    )
    stopwatch = Stopwatch(runner)
    with blamed_on(workload.name, "training"):
        chosen = _choose(stopwatch, sizes, options, fit, journal, findings)
        progress(_SEARCH_SHARE + _SCOUT_SHARE)
        left_s = end_s - device.host_s() - _GRADIENT_SHARE * options.seconds
        effort = Effort(precision=options.error, seconds=max(left_s, 0.0))
        rounds = time_in_turn(
            stopwatch,
            chosen,
            effort,
            journal,
            compiled=options.compiled,
            progress=lambda timings: progress(_progress(timings, chosen, effort)),
        )
        findings.compile_s = rounds.compile_s
        findings.cut += [
            f"batch {t.batch} ({t.steps} steps)" for t in rounds.timings if t.batch in rounds.cut
        ]
        if sizes.finite and not runner.loss_is_finite:
            findings.notes.append(
                "The loss became nan or infinite while steps were timed; they take as long as with "
                "numbers, but a lower learning rate may train better."
            )
        gradients = time_gradients(
            runner,
            rounds.timings,
            accumulation=options.accumulation,
            end_s=end_s,
            # Every further size of a compiled model would be compiled anew.
            add_sizes=not options.compiled,
        )
        findings.cut += gradients.cut
        findings.notes += gradients.notes
    timed = rounds.timings
    return _profile(workload, device, options, sizes, timed, gradients.schedule, rate, findings)


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
        return tuple(sorted(options.batch_sizes))
    known = journal.last("chosen")
    if known is not None:
        findings.notes.append(known["note"])
        return tuple(known["batches"])
    candidates = candidate_sizes(sizes.min_batch, sizes.max_batch)
    stopwatch.runner.workload.check_batches(candidates)
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
    rate: float | None,
    findings: _Findings,
) -> WorkloadProfile:
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
        input_samples_per_s_per_vcpu=rate,
        item=Item(workload.unit, workload.seq_len),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        source=f"srifty profile on {device.name}",
        software=_software(device),
        compile_s=max(findings.compile_s) if options.compiled else None,
        notes=(
            *sizes.notes,
            *findings.notes,
            *_cut_notes(options, findings),
            *timing_notes(timings, options.error),
            *_optimizer_notes(workload),
            *_input_notes(workload),
        ),
    )


def _input_rate(workload: Workload, options: Options, journal: Journal) -> float | None:
    """Returns samples per second that one vCPU of the loader delivers; None without a loader."""
    if workload.loader is None:
        return None
    known = journal.last("input")
    if known is not None:
        return float(known)
    seconds = min(_MOST_INPUT_S, max(_LEAST_INPUT_S, _INPUT_SHARE * options.seconds))
    rate = measure_input_rate(workload.loader, workload.name, seconds=seconds)
    journal.add("input", rate.samples_per_s_per_vcpu)
    return rate.samples_per_s_per_vcpu


def _cut_notes(options: Options, findings: _Findings) -> tuple[str, ...]:
    if not findings.cut:
        return ()
    return (
        f"Cut short, as {format_duration(options.seconds)} were over: {', '.join(findings.cut)}; "
        "give it more seconds.",
    )


def _optimizer_notes(workload: Workload) -> tuple[str, ...]:
    left_out = workload.not_stepped
    if not left_out:
        return ()
    more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    return (f"Trainable, but not in the optimizer: {', '.join(left_out[:5])}{more}.",)


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


def _check_sizes(workload: Workload, options: Options) -> None:
    """Refuses sizes to time that cannot be, before anything is measured.

    Raises:
        InputError: sizes above the data set or the global batch, or that `make_batch` cannot make.
    """
    options.require_sizes_below(workload.dataset_size, "the size of the data set")
    options.require_sizes_below(workload.global_batch, "the global batch")
    with torch.random.fork_rng():
        workload.check_batches(options.batch_sizes)


def _batch_shapes(workload: Workload) -> list[str]:
    """Returns shape and type of what a batch of one holds: other data are another workload."""
    with torch.random.fork_rng(), blamed_on(workload.name, "making a batch of 1"):
        torch.manual_seed(0)  # random lengths come out alike each time
        return [f"{list(t.shape)} {t.dtype}" for t in tensors_of(workload.make_batch(1))]


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
