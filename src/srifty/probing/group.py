"""The process group of a probe: who takes part, with which library, and how all agree (torch)."""

from __future__ import annotations

import hashlib
import importlib
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from srifty.errors import InputError
from srifty.probing.grid import ElementType
from srifty.probing.launch import Launch
from srifty.probing.watch import SILENCE_S


class Backend(StrEnum):
    """The library that reduces."""

    AUTO = "auto"
    GLOO = "gloo"
    NCCL = "nccl"


@dataclass(frozen=True)
class Group:
    """All ranks, joined.

    Two groups of the same ranks: one is measured; over the other, always gloo on the host, they
    agree, so that agreeing neither waits for a GPU nor disturbs what is measured.

    Attributes:
        launch: where this process stands.
        backend: of the group that is measured; never `auto`.
        device: torch's device of the messages.
        library_version: `2.21.5` for NCCL, `gloo torch-2.13.0` for gloo.
        torch_version: of rank 0.
        gpu: the GPU model's name, or `cpu`.
        allocation: random hexadecimal digits that all ranks share.
        notes: what a reader of the samples should know of the group, in sentences.
        torch: the module.
        control: torch's group to agree over.
        measured: torch's group that is measured.
    """

    launch: Launch
    backend: Backend
    device: str
    library_version: str
    torch_version: str
    gpu: str
    allocation: str
    notes: tuple[str, ...]
    torch: Any
    control: Any
    measured: Any

    def decided(self, values: Sequence[int]) -> list[int]:
        """Returns the whole numbers that rank 0 passed; the others pass as many of any value."""
        return _from_rank_0(self.torch, self.control, values)

    def highest(self, values: Sequence[float]) -> list[float]:
        """Returns the highest of all ranks, place by place."""
        return _highest(self.torch, self.control, values)

    def barrier(self) -> None:
        """Returns once all ranks have come here."""
        self.torch.distributed.barrier(group=self.control)

    def close(self) -> None:
        """Ends the groups once all ranks have come here, so that none is left in an operation."""
        self.barrier()
        self.torch.distributed.destroy_process_group()


def import_torch() -> Any:
    """Returns the module torch.

    Raises:
        InputError: it is not installed, or cannot talk to other processes.
    """
    try:
        torch: Any = importlib.import_module("torch")
        importlib.import_module("torch.distributed")
    except ImportError as error:
        raise InputError(f'a probe needs PyTorch ({error}): pip install "srifty[train]"') from None
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        raise InputError("this build of PyTorch lacks torch.distributed with gloo; install another")
    return torch


def open_group(torch: Any, launch: Launch, backend: Backend, element: ElementType) -> Group:
    """Returns the group of all ranks that torchrun started, once all are there.

    Raises:
        InputError: the ranks are spread unevenly over VMs, NCCL was asked for and cannot run
            everywhere, or the library cannot add the element type. All ranks raise it together.
    """
    distributed = torch.distributed
    distributed.init_process_group("gloo", timeout=timedelta(seconds=SILENCE_S))
    control = distributed.group.WORLD
    _require_even(torch, control, launch)
    lacks_nccl = _highest(torch, control, [float(not _has_nccl(torch, launch))])[0] > 0
    if backend is Backend.NCCL and lacks_nccl:
        raise InputError(
            "NCCL needs a CUDA build of PyTorch and a GPU for each process of a VM; start no more "
            "processes than there are GPUs (--nproc-per-node), or write --backend gloo"
        )
    chosen = Backend.GLOO if backend is Backend.GLOO or lacks_nccl else Backend.NCCL
    device = "cpu"
    if chosen is Backend.NCCL:
        device = f"cuda:{launch.local_rank}"
        torch.cuda.set_device(launch.local_rank)
    # The waiting thread gives up after SILENCE_S and saves; torch's own time-out, which for NCCL
    # kills the process, only comes after it.
    measured = distributed.new_group(backend=chosen.value, timeout=timedelta(seconds=2 * SILENCE_S))
    _require_sums(torch, control, measured, chosen, device, element)
    gpu = _gpu_name(torch, launch)
    allocation = _from_rank_0(torch, control, [secrets.randbits(31)])[0]
    torch_version = str(torch.__version__).split("+", 1)[0]
    version = f"gloo torch-{torch_version}"
    if chosen is Backend.NCCL:
        version = ".".join(str(part) for part in torch.cuda.nccl.version())
    return Group(
        launch=launch,
        backend=chosen,
        device=device,
        library_version=version,
        torch_version=torch_version,
        gpu=gpu,
        allocation=f"{allocation:08x}",
        notes=(
            *_notes(torch, control, launch, gpu),
            *_fallback_notes(torch, control, backend, chosen),
        ),
        torch=torch,
        control=control,
        measured=measured,
    )


def _require_even(torch: Any, control: Any, launch: Launch) -> None:
    """Refuses unequal numbers of processes per VM: a sample says the VMs and ranks, no more."""
    counts = sorted(set(_gathered(torch, control, launch.local_world_size)))
    if len(counts) > 1:
        raise InputError(
            f"the VMs run {' and '.join(map(str, counts))} processes; give each VM the same "
            "--nproc-per-node"
        )
    if launch.local_world_size * launch.vms != launch.world_size:
        raise InputError(
            f"torchrun counts {launch.vms} VMs of {launch.local_world_size} processes but "
            f"{launch.world_size} ranks; start one torchrun per VM"
        )


def _has_nccl(torch: Any, launch: Launch) -> bool:
    return bool(
        torch.distributed.is_nccl_available()
        and torch.cuda.is_available()
        and torch.cuda.device_count() >= launch.local_world_size
    )


def _require_sums(
    torch: Any, control: Any, measured: Any, backend: Backend, device: str, element: ElementType
) -> None:
    """Adds one element, which also connects all ranks; refuses a type that cannot be added."""
    lacking = 0.0
    one = torch.ones(1, dtype=getattr(torch, element.value), device=device)
    try:
        torch.distributed.all_reduce(one, group=measured)
    except (TypeError, ValueError, RuntimeError) as error:
        # Only what is said of the type is an answer about it; a lost rank must stay an error.
        if "type" not in str(error).lower():
            raise
        lacking = 1.0
    if _highest(torch, control, [lacking])[0] > 0:
        raise InputError(f"{backend.value} of this PyTorch cannot add {element.value}", "--dtype")


def _notes(torch: Any, control: Any, launch: Launch, gpu: str) -> tuple[str, ...]:
    hosts = len(set(_gathered(torch, control, _digest(socket.gethostname()))))
    kinds = len(set(_gathered(torch, control, _digest(gpu))))
    notes: list[str] = []
    if hosts != launch.vms:
        notes.append(
            f"torchrun counts {launch.vms} VM(s), the host names {hosts}; the samples say "
            f"{launch.vms}."
        )
    if kinds > 1:
        notes.append(f"The ranks have {kinds} GPU models; the samples name rank 0's, {gpu}.")
    return tuple(notes)


def _fallback_notes(torch: Any, control: Any, asked: Backend, chosen: Backend) -> tuple[str, ...]:
    """Says where `auto` took gloo though there are GPUs: its times are not those of training."""
    has_gpu = _highest(torch, control, [float(torch.cuda.is_available())])[0] > 0
    if asked is not Backend.AUTO or chosen is Backend.NCCL or not has_gpu:
        return ()
    return (
        "There are GPUs, but not one for each process of every VM, or no NCCL: gloo was measured.",
    )


def _gpu_name(torch: Any, launch: Launch) -> str:
    if not torch.cuda.is_available():
        return "cpu"
    # Under gloo there may be more processes than GPUs.
    return str(torch.cuda.get_device_name(launch.local_rank % torch.cuda.device_count()))


def _digest(text: str) -> int:
    """Returns 62 bits of a name's hash: names themselves need not leave their host."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 2


def _from_rank_0(torch: Any, control: Any, values: Sequence[int]) -> list[int]:
    tensor = torch.tensor(list(values), dtype=torch.int64)
    torch.distributed.broadcast(tensor, 0, group=control)
    return [int(value) for value in tensor.tolist()]


def _highest(torch: Any, control: Any, values: Sequence[float]) -> list[float]:
    tensor = torch.tensor(list(values), dtype=torch.float64)
    torch.distributed.all_reduce(tensor, torch.distributed.ReduceOp.MAX, group=control)
    return [float(value) for value in tensor.tolist()]


def _gathered(torch: Any, control: Any, value: int) -> list[int]:
    world = torch.distributed.get_world_size(control)
    parts = [torch.zeros(1, dtype=torch.int64) for _ in range(world)]
    torch.distributed.all_gather(parts, torch.tensor([value], dtype=torch.int64), group=control)
    return [int(part.item()) for part in parts]
