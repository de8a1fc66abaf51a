"""One batch size, tried with real training steps in this process (torch)."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from srifty.core._checks import require_count, require_positive
from srifty.errors import ProfileFailed, SriftyError
from srifty.profiling._torch import torch
from srifty.profiling.blame import describe
from srifty.profiling.device import Device
from srifty.profiling.host_memory import allowed_bytes, kept_below, peak_resident_bytes
from srifty.profiling.memory_errors import verdict_of
from srifty.profiling.outcome import Bounds, Outcome, Verdict
from srifty.profiling.state import snapshot
from srifty.profiling.steps import Precision, StepRunner
from srifty.profiling.workload import Workload
from srifty.units import format_duration

# A gradient scaler skips the optimizer's step until its scale, 65,536 at first, has come down.
_SKIPPED_STEPS = 20


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """How a batch size is tried.

    Attributes:
        precision: of the passes.
        accumulation: passes before each optimizer step.
        compiled: whether the model goes through `torch.compile`.
        warm_up: first steps, whose peaks say nothing about the spread.
        steps: steps after them.
        seconds: how long a trial may take, start-up left out.
    """

    precision: Precision = "fp32"
    accumulation: int = 1
    compiled: bool = False
    warm_up: int = 1
    steps: int = 4
    seconds: float = 120.0

    def __post_init__(self) -> None:
        require_count("accumulation", self.accumulation)
        require_count("warm_up", self.warm_up)
        require_count("steps", self.steps)
        require_positive("seconds", self.seconds)

    @property
    def total_steps(self) -> int:
        """Full steps of every trial: what `find_limit` asks for as `least_steps`."""
        return self.warm_up + self.steps

    def within(self, seconds: float) -> TrialSettings:
        """Returns the same for a trial that may take no longer than so."""
        return replace(self, seconds=min(self.seconds, seconds))


def bounds_of(
    workload: Workload, device: Device, user: int | None = None, *, isolated: bool = False
) -> Bounds:
    """Returns what limits the batches of a workload on a device.

    Args:
        workload: tells its global batch and data set.
        device: tells its memory; of a CPU counts what a trial may take.
        user: the user's own cap.
        isolated: whether trials have processes of their own.
    """
    memory, allowed = device.memory_bytes(), allowed_bytes(afresh=isolated)
    if device.kind == "cpu" and memory is not None and allowed is not None:
        memory = min(memory, allowed)
    return Bounds(
        global_batch=workload.global_batch,
        dataset_size=workload.dataset_size,
        user=user,
        memory_bytes=memory,
        host_memory_bytes=allowed,
    )


class InProcessTrials:
    """Tries batch sizes in this process; the workload is put back, and checked, after each.

    What a failed trial leaves in a GPU's allocator stays: on GPUs use `IsolatedTrials`.

    Args:
        workload: what to train.
        device: where.
        settings: how.
    """

    def __init__(self, workload: Workload, device: Device, settings: TrialSettings) -> None:
        self._workload = workload
        self._device = device
        self._settings = settings
        self._kept = snapshot(workload)

    def __call__(self, batch: int, seconds: float = math.inf) -> Outcome:
        """Returns what a trial of a batch size gave.

        Args:
            batch: samples in each pass.
            seconds: how long its steps may take, if that is less than the settings say.

        Raises:
            ProfileFailed: the workload could not be put back as it was.
        """
        fits = False
        settings = self._settings.within(seconds)
        try:
            outcome = run_trial(self._workload, self._device, batch, settings)
            fits = outcome.fits
        finally:
            self._kept.restore()
            _release(collect=not fits)
            self._kept.verify()
        return outcome


def run_trial(workload: Workload, device: Device, batch: int, settings: TrialSettings) -> Outcome:
    """Returns what full training steps at a batch size gave; the workload is left as trained.

    On a CPU this process is kept below a share of the memory that is free now.
    """
    trial = _Trial(workload, device, batch, settings)
    began_s = time.perf_counter()
    verdict, message = Verdict.FITS, ""
    try:
        with kept_below(allowed_bytes() if device.kind == "cpu" else None):
            trial.train()
    except _TooSlow as slow:
        verdict, message = Verdict.TOO_SLOW, str(slow)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything; all of it is told
        verdict = verdict_of(error, device.kind)
        own = isinstance(error, SriftyError)
        message = str(error) if own else describe(error, f"training on {_samples(batch)}")
    return Outcome(
        batch=batch,
        verdict=verdict,
        message=message,
        steps=trial.optimizer_steps,
        seconds=time.perf_counter() - began_s,
        peak_bytes=max(trial.peaks_bytes, default=None),
        peak_spread=_half_range(trial.peaks_bytes[settings.warm_up :]),
        host_peak_bytes=trial.host_peak_bytes(),
        held_bytes=trial.held_bytes,
        finite=trial.finite,
    )


class _TooSlow(Exception):  # noqa: N818 - an outcome, not an error
    """The steps would not end in time."""


class _Trial:
    """The steps of one trial.

    Attributes:
        peaks_bytes: the device's peak memory in each full step, where it is measured.
        optimizer_steps: how often the optimizer really stepped.
        held_bytes: the device's memory in use before the first step.
        finite: whether the last loss was a number.
    """

    def __init__(
        self, workload: Workload, device: Device, batch: int, settings: TrialSettings
    ) -> None:
        self._workload = workload
        self._device = device
        self._batch = batch
        self._settings = settings
        self.peaks_bytes: list[int] = []
        self.optimizer_steps = 0
        self.finite = True
        device.reset_peak()
        self.held_bytes = device.peak_memory_bytes()

    def train(self) -> None:
        """Does the steps.

        Raises:
            Exception: whatever torch or the user's code raises.
        """
        optimizer = cast("Any", self._workload.optimizer)
        hook = optimizer.register_step_post_hook(self._count)
        try:
            self._train()
        finally:
            hook.remove()

    def host_peak_bytes(self) -> int | None:
        """Returns the most memory that the process had."""
        now = peak_resident_bytes()
        if self._device.kind != "cpu" or now is None:
            return now
        return max([now, *self.peaks_bytes])  # the peak starts anew with each step

    def _count(self, *_: Any) -> None:
        self.optimizer_steps += 1

    def _train(self) -> None:
        settings, device = self._settings, self._device
        runner = StepRunner(
            self._workload,
            device,
            settings.precision,
            settings.accumulation,
            compiled=settings.compiled,
        )
        # Two, for a loop holds one batch while it is given the next.
        batches = [self._workload.batch_of(self._batch) for _ in range(2)]
        current: Any = None
        began_s = before_s = time.perf_counter()
        for step in range(settings.total_steps + _SKIPPED_STEPS):
            if self.optimizer_steps >= settings.total_steps:
                return
            device.reset_peak()
            current = device.move(batches[step % 2])
            runner.step(current)
            device.synchronize()
            self._note_peak()
            self.finite = runner.loss_is_finite
            self._check_mode()
            now_s = time.perf_counter()
            # The first step may compile and look for the best kernels: it says nothing of others.
            self._check_time(now_s - began_s, now_s - before_s if step else 0.0)
            before_s = now_s
        if self.optimizer_steps < settings.total_steps:
            raise ProfileFailed(
                f"the optimizer stepped {self.optimizer_steps} times in "
                f"{settings.total_steps + _SKIPPED_STEPS} steps: "
                + ("gradients overflow" if self.finite else "the loss is nan or infinite")
            )

    def _note_peak(self) -> None:
        peak = self._device.peak_memory_bytes()
        if peak is not None:
            self.peaks_bytes.append(peak)

    def _check_mode(self) -> None:
        if not self._workload.model.training:
            raise ProfileFailed("the model is no longer in train mode: loss must not change that")

    def _check_time(self, spent_s: float, step_s: float) -> None:
        left = max(self._settings.total_steps - self.optimizer_steps, 0)
        total_s = spent_s + left * step_s
        if left and total_s > self._settings.seconds:
            raise _TooSlow(
                f"{self._settings.total_steps} steps would take {format_duration(total_s)} or "
                f"more, a trial may take {format_duration(self._settings.seconds)}"
            )


def _half_range(values: Sequence[int]) -> float:
    low, high = min(values, default=0), max(values, default=0)
    return (high - low) / max(high + low, 1)


def _samples(batch: int) -> str:
    return f"{batch:,} samples" if batch > 1 else "1 sample"


def _release(*, collect: bool) -> None:
    """Frees what nothing refers to any more, on the device too.

    Args:
        collect: whether to look for cycles, which errors leave; it takes tenths of a second.
    """
    if collect:
        gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
