"""Operations, bytes and memory of a training step, counted under fake tensors (torch).

Fake tensors have shapes but no data: a step of any size runs in seconds on any machine, and the
model itself is never touched.
"""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from srifty.core.profile import Item, Layer
from srifty.core.work import StepMemory, StepWork
from srifty.errors import InputError
from srifty.profiling._torch import Module, Optimizer, Tensor, torch
from srifty.profiling._torch_counters import (
    FLOPS,
    FakeTensorMode,
    ModuleTracker,
    TorchDispatchMode,
    tree_leaves,
    tree_map_only,
)
from srifty.profiling.blame import blamed_on
from srifty.profiling.counted_gradients import Arrivals, estimate_gradients
from srifty.profiling.live_bytes import LiveBytes
from srifty.profiling.workload import Workload

BATCHES = (8, 16, 32)
"""Batch sizes that are counted: work per sample is the difference of the last two. Smaller data
sets are counted at smaller ones."""

BYTES_PER_ELEMENT = 4.0
"""What a `Layer` counts in, whatever the precision."""

OUTSIDE = "outside the model"
"""Name of the layer that the loss function's own operations make up."""

# Further off in the smallest batch, and the work does not grow in proportion.
_LINEAR_WITHIN = 0.01
_HALVES = {"fp16": "float16", "bf16": "bfloat16"}


@dataclass
class _Tally:
    """What one step of `batch` samples did, by the innermost module that was running."""

    batch: int
    flops: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    elements: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    backward_flops: float = 0.0
    fast: set[str] = field(default_factory=set[str])
    passes_bytes: float = 0.0
    optimizer_bytes: float = 0.0
    arrivals: Arrivals = field(default_factory=Arrivals)


def count(
    workload: Workload,
    *,
    precision: str = "fp32",
    on_batch: Callable[[int], None] | None = None,
) -> StepWork:
    """Returns the work of a training step per sample.

    Counted are matrix products, convolutions and attention (a multiply-add is two operations) and
    the elements that the forward pass writes, views and updates in place left out. Work that does
    not grow with the batch is left out too. Memory is the peak of a whole step, the optimizer's
    state included.

    Args:
        workload: what to count; its model, optimizer and data stay as they are.
        precision: `fp32` or `tf32`, or `fp16` or `bf16` by autocast: it decides the memory.
        on_batch: told each batch size before it is counted; ResNet-50 takes some 10 s in all.

    Raises:
        InputError: the step needs values rather than shapes, fails, or nothing in it grows with
            the batch.
    """
    tallies: list[_Tally] = []
    most = _most_batch(workload)
    sizes = _sizes(workload, most)
    for size in sizes:
        if on_batch is not None:
            on_batch(size)
        # The smallest only tells whether the work is proportional; its memory is not asked for.
        tallies.append(_run(workload, size, precision, with_memory=size != sizes[0]))
    return _work(workload, precision, tallies, most)


def _most_batch(workload: Workload) -> int | None:
    known = (workload.dataset_size, workload.global_batch)
    return min((size for size in known if size is not None), default=None)


def _sizes(workload: Workload, most: int | None) -> tuple[int, ...]:
    """Returns the batch sizes to count: half as large until the data have so many samples.

    Raises:
        InputError: there are too few samples for three sizes.
    """
    sizes = BATCHES
    while most is not None and sizes[-1] > most:
        sizes = tuple(size // 2 for size in sizes)
    if sizes[0] < 1:
        raise InputError(f"{most} samples are too few to count a step; 4 are needed", workload.name)
    return sizes


def _work(workload: Workload, precision: str, tallies: list[_Tally], most: int | None) -> StepWork:
    first, before, last = tallies
    apart = last.batch - before.batch

    def each(read: Callable[[_Tally], float]) -> float:
        return max(0.0, (read(last) - read(before)) / apart)

    owners = _owners(workload.model)
    layers: list[Layer] = []
    for name in dict.fromkeys([*owners, *last.elements, *last.flops]):
        flops = each(lambda tally, name=name: tally.flops.get(name, 0.0))
        elements = each(lambda tally, name=name: tally.elements.get(name, 0.0))
        parameters = sum(size for _, size in owners.get(name, ()))
        if flops or elements or parameters:
            layers.append(Layer(name, flops, BYTES_PER_ELEMENT * elements, parameters))
    forward = sum(layer.flops for layer in layers)
    sample_bytes = each(lambda tally: tally.passes_bytes)
    if not any(layer.bytes for layer in layers) or not sample_bytes:
        raise InputError(
            "nothing in the step grows with the batch; does loss use the batch?", workload.name
        )
    backward = each(lambda tally: tally.backward_flops)
    work = {layer.name: layer.flops + layer.bytes for layer in layers}
    gradients = estimate_gradients(
        [(work.get(owner, 0.0), [name for name, _ in held]) for owner, held in owners.items()],
        [tally.arrivals for tally in tallies],
    )
    return StepWork(
        workload=workload.name,
        precision=precision,
        layers=tuple(layers),
        fast_layers=frozenset(last.fast),
        backward_ratio=backward / forward if forward else 2.0,
        memory=StepMemory(
            fixed_bytes=max(0.0, last.passes_bytes - last.batch * sample_bytes),
            sample_bytes=sample_bytes,
            least_bytes=last.optimizer_bytes,
        ),
        gradients=gradients.schedule,
        item=Item(workload.unit, workload.seq_len),
        min_batch=2 if _has_batch_norm(workload.model) else 1,
        most_batch=most,
        notes=(*_notes(first, before, last), *gradients.notes),
    )


def _notes(first: _Tally, before: _Tally, last: _Tally) -> tuple[str, ...]:
    totals = [sum(tally.flops.values()) for tally in (first, before, last)]
    step = (totals[2] - totals[1]) / (last.batch - before.batch)
    expected = totals[1] - step * (before.batch - first.batch)
    if abs(expected - totals[0]) > _LINEAR_WITHIN * max(totals[0], 1.0):
        return (
            f"operations do not grow in proportion to the batch; counted between "
            f"{before.batch} and {last.batch} samples",
        )
    return ()


def _run(workload: Workload, size: int, precision: str, *, with_memory: bool) -> _Tally:
    """Runs a step on fake tensors, and with the optimizer's state in memory another one."""
    tally = _Tally(size)
    with torch.random.fork_rng(devices=[]):  # making a batch must not move the user's dice
        real_batch = workload.batch_of(size)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    model, optimizer = _fake(workload, mode)
    model.train()
    device = next(model.parameters()).device
    with _blamed(workload.name, size), _plain_kernels(), mode, _autocast(device, precision):

        def fake(tensor: Tensor) -> Tensor:
            return mode.from_tensor(tensor).to(device)

        batch = tree_map_only(torch.Tensor, fake, real_batch)
        with _counting(model, tally), tally.arrivals.watched(model):
            workload.loss(model, batch).backward()
        if with_memory:
            optimizer.step()
            optimizer.zero_grad()
            _tell_memory(tally, workload, model, optimizer, batch)
    return tally


def _tell_memory(
    tally: _Tally, workload: Workload, model: Module, optimizer: Optimizer, batch: Any
) -> None:
    """Measures the peaks of a step on fake tensors whose optimizer has its state already."""
    memory = LiveBytes()
    memory.add(_tensors(model, optimizer))
    memory.add(leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor))
    with memory:
        workload.loss(model, batch).backward()
        tally.passes_bytes = memory.peak
        memory.restart()
        optimizer.step()
        tally.optimizer_bytes = memory.peak


def _tensors(model: Module, optimizer: Optimizer) -> list[Any]:
    states = [value for state in optimizer.state.values() for value in state.values()]
    return [
        *model.parameters(),
        *model.buffers(),
        *(value for value in states if isinstance(value, torch.Tensor)),
    ]


def _fake(workload: Workload, mode: Any) -> tuple[Module, Optimizer]:
    """Copies of model and optimizer with the same ties and no data."""
    model, optimizer = workload.model, workload.optimizer
    if optimizer is None:  # excluded by the workload
        raise AssertionError("a workload without an optimizer")
    memo = {id(tensor): mode.from_tensor(tensor) for tensor in _tensors(model, optimizer)}
    with blamed_on(workload.name, "copying the model"):
        return copy.deepcopy(model, memo), copy.deepcopy(optimizer, memo)


@contextmanager
def _counting(model: Module, tally: _Tally) -> Generator[None]:
    names = {type(model).__name__: ""}
    tracker = ModuleTracker()

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(  # the name that torch looks for
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            _tell(tally, tracker, names, func, args, kwargs or {}, out)
            return out

    with tracker, Counter():
        yield


def _tell(
    tally: _Tally,
    tracker: Any,
    names: Mapping[str, str],
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: Any,
) -> None:
    packet = func._overloadpacket
    flops = float(FLOPS[packet](*args, **kwargs, out_val=out)) if packet in FLOPS else 0.0
    if tracker.is_bw:
        tally.backward_flops += flops
        return
    inside = [name for name in tracker.parents if name != "Global"]
    innermost = max(inside, key=len, default=OUTSIDE)
    name = names.get(innermost, innermost.partition(".")[2] or innermost)
    name = name or "(the model itself)"
    tally.flops[name] += flops
    if all(returned.alias_info is None for returned in func._schema.returns):
        tally.elements[name] += sum(
            leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)
        )
    if flops and packet is torch.ops.aten.convolution and _is_fast(args):
        tally.fast.add(name)


def _is_fast(args: tuple[Any, ...]) -> bool:
    """Whether libraries have a kernel with fewer operations: 3x3, stride 1, ungrouped."""
    weight, stride, dilation, transposed, groups = args[1], args[3], args[5], args[6], args[8]
    return (
        tuple(weight.shape[2:]) == (3, 3)
        and weight.shape[1] >= 32  # fewer channels do not fill such a kernel
        and list(stride) == [1, 1]
        and list(dilation) == [1, 1]
        and not transposed
        and groups == 1
    )


def _owners(model: Module) -> dict[str, list[tuple[str, int]]]:
    """Names and sizes of the trainable parameters by the module that holds them; ties count once.

    In the order of registration; modules without any are left out.
    """
    found: dict[str, list[tuple[str, int]]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            owner = name.rpartition(".")[0] or "(the model itself)"
            found.setdefault(owner, []).append((name, int(parameter.numel())))
    return found


def _has_batch_norm(model: Module) -> bool:
    return any(
        isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in model.modules()
    )


@contextmanager
def _blamed(name: str, size: int) -> Generator[None]:
    """Tells a step that needs values from one that fails."""
    data_dependent = torch._subclasses.fake_tensor
    try:
        with blamed_on(name, f"counting a step of {size} samples"):
            yield
    except InputError as error:
        if isinstance(
            error.__cause__,
            (
                data_dependent.DataDependentOutputException,
                data_dependent.DynamicOutputShapeException,
            ),
        ):
            raise InputError(
                f"the step needs the values of tensors, not only their shapes "
                f"({error.__cause__}), so its work cannot be counted without running it; keep "
                ".item(), .nonzero() and boolean indexing out of model and loss",
                name,
            ) from None
        raise


@contextmanager
def _plain_kernels() -> Generator[None]:
    """Without oneDNN, whose recurrent layers are one operation that no counter knows."""
    with warnings.catch_warnings():
        # Its switch warns about hardware that is not there.
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


def _autocast(device: Any, precision: str) -> Any:
    if precision not in _HALVES:
        return _nothing()
    return torch.autocast(device.type, dtype=getattr(torch, _HALVES[precision]))


@contextmanager
def _nothing() -> Generator[None]:
    yield
