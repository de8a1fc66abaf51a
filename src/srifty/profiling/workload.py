"""What is profiled: a model, its loss, its optimizer and a way to make batches (torch)."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from srifty.errors import InputError
from srifty.profiling._torch import Module, Optimizer, Tensor, torch
from srifty.profiling.blame import blamed_on

_EXACTLY = (
    "it must give exactly as many samples as asked for, or the latency would be that of another "
    "batch"
)
_BATCH_KINDS = (
    "a tensor whose first dimension counts the samples, or tuples, lists and dicts of such tensors"
)
# How many of many are named.
_SHOWN = 5


@dataclass
class Workload:
    """What the user's factory returns.

    Attributes:
        name: the workload's name.
        model: in train mode or not; it is trained while it is profiled and restored afterwards.
        loss: (model, batch) → scalar loss; runs the forward pass.
        make_batch: batch size → a batch of exactly that many samples, on the CPU: a tensor, or
            tuples, lists and dicts of tensors. Worst-case sequence lengths are its business.
        optimizer: over parameters of the model and no others, which would not be put back; None:
            SGD with momentum over the trainable ones.
        dataset_size: samples in the data set; no larger batch is tried.
        loader: number of worker processes → an iterable of batches, such as a DataLoader; None: the
            input rate is not measured.
        unit: what a sample is.
        seq_len: tokens in a sequence, where that is what a sample is.
        global_batch: samples per iteration over all GPUs; no larger batch is tried.
    """

    name: str
    model: Module
    loss: Callable[[Module, Any], Tensor]
    make_batch: Callable[[int], Any]
    optimizer: Optimizer | None = None
    dataset_size: int | None = None
    loader: Callable[[int], Iterable[Any]] | None = None
    unit: Literal["sample", "sequence", "token"] = "sample"
    seq_len: int | None = None
    global_batch: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, torch.nn.Module):
            raise InputError(f"model must be a torch.nn.Module, not {kind_of(self.model)}")
        for part in ("loss", "make_batch"):
            if not callable(getattr(self, part)):
                raise InputError(f"{part} must be a function, not {kind_of(getattr(self, part))}")
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        if not trainable:
            raise InputError("the model has no trainable parameter; nothing would be trained")
        if self.optimizer is None:
            self.optimizer = torch.optim.SGD(trainable, lr=1e-3, momentum=0.9)
        self._check_optimizer()

    @property
    def not_stepped(self) -> tuple[str, ...]:
        """The names of the trainable parameters that the optimizer does not hold."""
        held = {id(parameter) for parameter in _parameters_of(self.optimizer)}
        named = self.model.named_parameters()
        return tuple(name for name, p in named if p.requires_grad and id(p) not in held)

    def _check_optimizer(self) -> None:
        if not isinstance(self.optimizer, torch.optim.Optimizer):
            raise InputError(
                f"optimizer must be a torch.optim.Optimizer, not {kind_of(self.optimizer)}",
                self.name,
            )
        own = {id(parameter) for parameter in self.model.parameters()}
        held = _parameters_of(self.optimizer)
        foreign = [parameter for parameter in held if id(parameter) not in own]
        if foreign:
            shapes = ", ".join(str(tuple(parameter.shape)) for parameter in foreign[:_SHOWN])
            raise InputError(
                f"the optimizer trains {len(foreign)} of {len(held)} parameters that are not the "
                f"model's (of shape {shapes}{', ...' if len(foreign) > _SHOWN else ''}); make it "
                "over the parameters of this very model, and if the loss has parameters too, put "
                "both into one module",
                self.name,
            )

    def batch_of(self, size: int) -> Any:
        """Returns a batch of exactly `size` samples.

        Raises:
            InputError: the user's function fails, or gives a batch of another size or no tensors.
        """
        batch, wrong = self._made(size)
        if wrong:
            raise InputError(f"{wrong}; {_EXACTLY}", self.name)
        return batch

    def check_batches(self, sizes: Iterable[int]) -> None:
        """Makes a batch of each size, and throws it away.

        Raises:
            InputError: the user's function fails, or gives batches of other sizes; all are named.
        """
        wrong = [problem for size in sizes if (problem := self._made(size)[1])]
        if wrong:
            raise InputError(f"{', '.join(wrong)}; {_EXACTLY}", self.name)

    def _made(self, size: int) -> tuple[Any, str]:
        """Returns a batch, and what is wrong with its size; empty where nothing is."""
        with blamed_on(self.name, f"making a batch of {size}"):
            batch = self.make_batch(size)
        sizes = leading_sizes(batch)
        if size in sizes:
            return batch, ""
        if not sizes:
            raise InputError(
                f"make_batch({size}) returned {kind_of(batch)}{_without(batch)}; it must return "
                f"{_BATCH_KINDS}",
                self.name,
            )
        return batch, f"make_batch({size}) gave a batch of {min(sizes)}"


def batch_size_of(batch: Any) -> int:
    """Returns how many samples a batch holds: the smallest leading dimension of its tensors.

    The smallest, because packed inputs (indices of embedding bags) have more rows than samples.

    Raises:
        InputError: there is no tensor with a leading dimension in it.
    """
    sizes = leading_sizes(batch)
    if not sizes:
        raise InputError("a batch must hold tensors whose first dimension counts the samples")
    return min(sizes)


def leading_sizes(batch: Any) -> frozenset[int]:
    """Returns the leading dimensions of a batch's tensors."""
    return frozenset(int(tensor.shape[0]) for tensor in tensors_of(batch) if tensor.dim() > 0)


def tensors_of(batch: Any) -> Iterator[Tensor]:
    """Yields the tensors of nested tuples, lists and mappings."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for part in cast("Mapping[Any, Any]", batch).values():
            yield from tensors_of(part)
    elif isinstance(batch, (tuple, list)):
        for part in cast("Iterable[Any]", batch):
            yield from tensors_of(part)


def load_factory(reference: str) -> Callable[[], Workload]:
    """Returns the user's factory, wrapped so that its errors are told as theirs.

    Args:
        reference: `MODULE:FACTORY`; modules in the current folder are found too.

    Raises:
        InputError: the reference is malformed, or there is no such module or function.
    """
    module_name, colon, factory_name = reference.partition(":")
    if module_name.endswith(".py"):
        raise InputError(
            f"names a file; write the module: {Path(module_name).stem}:{factory_name or 'FACTORY'}",
            reference,
        )
    parts = [*module_name.split("."), factory_name]
    if not colon or not all(part.isidentifier() for part in parts):
        raise InputError("must be MODULE:FACTORY, such as train:make_workload", reference)
    module = _import_module(module_name, reference)
    try:
        factory = getattr(module, factory_name)
    except AttributeError:
        hint = _hint(module, module_name, factory_name)
        raise InputError(f"{module_name} has no {factory_name!r}; {hint}", reference) from None
    if not callable(factory):
        raise InputError(f"is {kind_of(factory)}, not a function", reference)

    def make() -> Workload:
        with blamed_on(reference, "making the workload"):
            workload = factory()
        if not isinstance(workload, Workload):
            raise InputError(
                f"returned {kind_of(workload)}; it must return a "
                "srifty.profiling.workload.Workload",
                reference,
            )
        return workload

    return make


def _import_module(name: str, reference: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:  # an installed command, unlike python -m, does not look here
        sys.path.insert(0, here)
    try:
        with blamed_on(reference, f"importing {name}"):
            return importlib.import_module(name)
    except InputError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and name.startswith(missing.name or name):
            raise InputError(
                f"there is no module {missing.name!r} in {here} or among the installed ones",
                reference,
            ) from None
        raise


def _hint(module: Any, name: str, missing: str) -> str:
    """Returns which functions a module has, of those that are its own if it has any."""
    functions: dict[str, Any] = {
        key: value
        for key, value in cast("dict[str, Any]", vars(module)).items()
        if callable(value) and not key.startswith("_") and not isinstance(value, type)
    }
    own = [key for key, value in functions.items() if getattr(value, "__module__", "") == name]
    found = own or list(functions)
    near = difflib.get_close_matches(missing, found, n=1)
    if near:
        return f"did you mean {name}:{near[0]}?"
    if not found:
        return "it has no functions"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"its functions are {', '.join(found[:_SHOWN])}{more}"


def _parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def kind_of(value: object) -> str:
    """Returns what a value is, with its article."""
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__name__ if kind.__module__ != "numpy" else f"numpy.{kind.__name__}"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _without(batch: object) -> str:
    """Returns what a batch of a kind that may hold tensors lacks."""
    if isinstance(batch, torch.Tensor):
        return " of no dimension"
    return " without tensors" if isinstance(batch, (Mapping, tuple, list)) else ""
