"""When each gradient is ready within the backward pass, and which never come (torch).

A hook on each trainable parameter leaves a mark in the device's queue once its gradient has been
accumulated. Autograd adds up what the uses of a tied parameter contribute before it accumulates;
under re-entrant checkpointing it accumulates several times, and the last one counts, as it does
for DistributedDataParallel with a static graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from srifty.core.profile import GradientSchedule
from srifty.errors import InputError
from srifty.profiling._torch import Tensor
from srifty.profiling.device import Mark
from srifty.profiling.parameters import (
    Parameter,
    exchanged,
    gradient_of,
    is_sparse,
    listed,
    named_parameters,
    silent_notes,
)
from srifty.profiling.steps import StepRunner
from srifty.profiling.workload import batch_size_of

_STEPS = 7
_WARM_UP = 2
# Of a normal distribution: interquartile range over standard deviation, and how much less precise
# a median is than a mean.
_IQR_PER_STD = 1.349
_STD_OF_MEDIAN = 1.253


@dataclass(frozen=True, slots=True)
class GradientTimes:
    """The gradients of one workload at one batch size.

    Attributes:
        batch: samples in one pass.
        backward_s: the backward pass with hooks, seconds; the median over the steps.
        schedule: what got a gradient, in order of readiness, and the trainable parameters whose
            gradient did not come.
        unused: trainable parameters that got no gradient in any step, in order of registration.
        sometimes: those that got one in some steps only (of the warm-up too, whose gradients alone
            do not stand in the schedule).
        frozen: parameters that take no gradient.
        shared: the names of each parameter that has several; the schedule uses the first.
        overlapping: names of parameters of one memory but with gradients of their own, each of
            which is exchanged.
        sparse: names of those whose gradient is sparse; its bytes depend on the batch.
        repeated: names of those whose gradient came in several parts of one backward pass.
        steady_order: whether all steps had the gradients ready in one and the same order.
        steps: how many steps were averaged, warm-up apart.
    """

    batch: int
    backward_s: float
    schedule: GradientSchedule
    unused: tuple[str, ...]
    sometimes: tuple[str, ...]
    frozen: tuple[str, ...]
    shared: tuple[tuple[str, ...], ...]
    overlapping: tuple[str, ...]
    sparse: tuple[str, ...]
    repeated: tuple[str, ...]
    steady_order: bool
    steps: int

    @property
    def silent(self) -> tuple[str, ...]:
        """Parameters without a gradient."""
        return self.unused + self.frozen

    @property
    def needs_find_unused_parameters(self) -> bool:
        """Whether DistributedDataParallel would otherwise wait for a gradient that stays away."""
        return bool(self.unused or self.sometimes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user of a profile should know of the gradients, in sentences."""
        notes = list(silent_notes(self.unused, self.sometimes))
        about = (
            (self.frozen, "frozen"),
            (tuple(" = ".join(names) for names in self.shared), "one parameter of several names"),
            (
                self.overlapping,
                "parameters that share memory but have gradients of their own, which are all sent",
            ),
            (self.sparse, "sparse gradients: their bytes depend on the batch"),
            (
                self.repeated,
                "gradients that come in several parts, the last of which counts; "
                "DistributedDataParallel needs static_graph=True",
            ),
        )
        notes += [f"{what}: {listed(names)}" for names, what in about if names]
        if not self.steady_order:
            notes.append("the order in which gradients are ready varied from step to step")
        return tuple(notes)


@dataclass(frozen=True, slots=True)
class HookOverhead:
    """What the hooks cost.

    Attributes:
        fraction: of a step's time; may come out below 0 where noise is larger than the cost.
        std: standard error of `fraction`.
        pairs: how many pairs of steps, one of them with hooks, were compared.
    """

    fraction: float
    std: float
    pairs: int


class GradientMarks:
    """What the hooks saw of one step: which parameter's gradient was accumulated, and when."""

    def __init__(self) -> None:
        self.fired: list[tuple[int, Mark]] = []


@contextmanager
def watched(parameters: Sequence[Tensor], clock: Callable[[], Mark]) -> Generator[GradientMarks]:
    """Marks each accumulation into a gradient; the hooks are gone afterwards, whatever happens.

    Args:
        parameters: whose gradients are watched; marks name them by their position.
        clock: what makes a mark, such as `Device.clock`.
    """
    marks = GradientMarks()
    handles: list[Any] = []
    try:
        for index, parameter in enumerate(parameters):
            handles.append(parameter.register_post_accumulate_grad_hook(_hook(marks, index, clock)))
        yield marks
    finally:
        for handle in handles:
            handle.remove()


def measure_gradients(
    runner: StepRunner, batch: Any, *, steps: int = _STEPS, warm_up: int = _WARM_UP
) -> GradientTimes:
    """Returns when the gradients of a workload are ready: the median over some real steps.

    With accumulation only the last pass of a step counts: gradients are exchanged after it alone.

    Args:
        runner: trains the workload; its model and optimizer take the steps.
        batch: on the runner's device.
        steps: how many are averaged.
        warm_up: steps before them, whose times do not count.

    Raises:
        InputError: `steps` is below 1, or no parameter got a gradient.
    """
    if steps < 1 or warm_up < 0:
        raise InputError(f"cannot average {steps} steps after {warm_up} of warm-up")
    names = named_parameters(runner.workload.model)
    trainable = exchanged(names)
    fractions: list[dict[int, float]] = []
    backward_s: list[float] = []
    seen: list[set[int]] = []
    repeated: set[int] = set()
    with watched([own.tensor for own in trainable], runner.device.clock) as marks:
        for step in range(warm_up + steps):
            marks.fired.clear()
            _, start, end = runner.step(batch).passes[-1]
            runner.device.synchronize()
            ready, twice = _fractions(runner, marks, start, end)
            repeated |= twice
            seen.append(set(ready))
            if step >= warm_up:
                fractions.append(ready)
                backward_s.append(runner.device.seconds_between(start, end))
    ever = {index for indices in seen for index in indices}
    always = {index for index in ever if all(index in indices for indices in seen)}

    # With gradients in parts only a static graph will do, and then no parameter has to be found.
    find_unused = len(always) < len(trainable) and not repeated
    schedule = _schedule(trainable, fractions, runner.workload.name, find_unused=find_unused)

    def named(indices: set[int]) -> tuple[str, ...]:
        return tuple(trainable[index].names[0] for index in sorted(indices))

    return GradientTimes(
        batch=batch_size_of(batch),
        backward_s=median(backward_s),
        schedule=schedule,
        unused=named(set(range(len(trainable))) - ever),
        sometimes=named(ever - always),
        frozen=tuple(own.names[0] for own in names if not own.tensor.requires_grad),
        shared=tuple(own.names for own in names if len(own.names) > 1),
        overlapping=_overlapping([trainable[index] for index in sorted(ever)]),
        sparse=named({index for index in ever if is_sparse(trainable[index].tensor)}),
        repeated=named(repeated),
        steady_order=len({tuple(ready) for ready in fractions}) == 1,
        steps=steps,
    )


def measure_overhead(runner: StepRunner, batch: Any, *, pairs: int = 10) -> HookOverhead:
    """Returns what the hooks cost, from steps with and without them in turn.

    Args:
        runner: trains the workload, warmed up.
        batch: on the runner's device.
        pairs: how many pairs of steps, at least 2.

    Raises:
        InputError: there are fewer pairs.
    """
    if pairs < 2:
        raise InputError(f"an overhead needs 2 pairs of steps or more, not {pairs}")
    trainable = [p for p in runner.workload.model.parameters() if p.requires_grad]

    def plain_s() -> float:
        marks = runner.step(batch)
        runner.device.synchronize()
        return runner.times(marks).step_s

    def hooked_s() -> float:
        with watched(trainable, runner.device.clock):
            return plain_s()

    ratios: list[float] = []
    for pair in range(pairs):
        # Which comes first changes, so that a drift of the clock rate favours neither.
        if pair % 2:
            with_hooks_s, without_s = hooked_s(), plain_s()
        else:
            without_s, with_hooks_s = plain_s(), hooked_s()
        ratios.append(with_hooks_s / without_s - 1)
    lower, _, upper = quantiles(ratios, n=4, method="inclusive")
    std = _STD_OF_MEDIAN * (upper - lower) / _IQR_PER_STD / pairs**0.5
    return HookOverhead(median(ratios), std, pairs)


def _hook(marks: GradientMarks, index: int, clock: Callable[[], Mark]) -> Callable[[Tensor], None]:
    def hook(_: Tensor) -> None:
        marks.fired.append((index, clock()))

    return hook


def _fractions(
    runner: StepRunner, marks: GradientMarks, start: Mark, end: Mark
) -> tuple[dict[int, float], set[int]]:
    """Returns the ready times of one step's last backward pass, in order, and what came twice."""
    between = runner.device.seconds_between
    whole_s = between(start, end)
    if whole_s <= 0:
        raise InputError("the device's clock stood still during a backward pass", "--device")
    last: dict[int, float] = {}
    counts = Counter[int]()
    for index, mark in marks.fired:
        after_s = between(start, mark)
        if after_s < 0:
            continue  # of an earlier pass of this step
        counts[index] += 1
        last.pop(index, None)  # so that a later contribution moves to the end of the order
        last[index] = min(after_s / whole_s, 1.0)
    return last, {index for index, count in counts.items() if count > 1}


def _schedule(
    trainable: Sequence[Parameter],
    fractions: Sequence[dict[int, float]],
    workload: str,
    *,
    find_unused: bool,
) -> GradientSchedule:
    """Returns the medians over the steps, each over those in which the gradient came."""
    times: dict[int, list[float]] = {}
    places: dict[int, list[int]] = {}
    for ready in fractions:
        for place, (index, fraction) in enumerate(ready.items()):
            times.setdefault(index, []).append(fraction)
            places.setdefault(index, []).append(place)
    if not times:
        raise InputError("no parameter got a gradient; does the loss depend on them?", workload)
    order = sorted(times, key=lambda index: (median(times[index]), median(places[index])))
    return GradientSchedule(
        tuple(gradient_of(trainable[index], index, median(times[index])) for index in order),
        unused=tuple(
            gradient_of(trainable[index], index)
            for index in range(len(trainable))
            if index not in times
        ),
        find_unused_parameters=find_unused,
    )


def _overlapping(owns: Sequence[Parameter]) -> tuple[str, ...]:
    """Returns the names of parameters that begin at one address."""
    by_address: dict[int, list[str]] = {}
    for own in owns:
        by_address.setdefault(int(own.tensor.data_ptr()), []).append(own.names[0])
    return tuple(name for names in by_address.values() if len(names) > 1 for name in names)
