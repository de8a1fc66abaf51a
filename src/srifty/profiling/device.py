"""Devices that a model trains on: moving batches, and clocks that the device itself stamps (torch).

Work is queued on a GPU and done later. Times are taken between marks that stand in the device's own
queue; the host's clock would only time the queueing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from srifty._torch import torch
from srifty.errors import InputError
from srifty.units import KIB

Mark: TypeAlias = Any

_MEMORY = Path("/proc/meminfo")
_STATUS = Path("/proc/self/status")
_CLEAR_PEAK = Path("/proc/self/clear_refs")
_CPU = Path("/proc/cpuinfo")


class Device(Protocol):
    """Where a model trains.

    Attributes:
        name: the GPU's or CPU's model.
        kind: torch's device type: `cpu`, `cuda`, ...
        place: torch's device.
    """

    name: str
    kind: str
    place: Any

    def move(self, batch: Any) -> Any:
        """Returns the batch (or model) on this device."""
        ...

    def synchronize(self) -> None:
        """Waits until all queued work is done."""
        ...

    def clock(self) -> Mark:
        """Returns a mark in the device's queue; cheap, waits for nothing."""
        ...

    def seconds_between(self, before: Mark, after: Mark) -> float:
        """Returns the seconds between two marks; only after `synchronize`."""
        ...

    def host_s(self) -> float:
        """Returns the host's clock, seconds: for whole loops that end with `synchronize`."""
        ...

    def memory_bytes(self) -> int | None:
        """Returns the device's memory; None where unknown."""
        ...

    def reset_peak(self) -> None:
        """Forgets the peak of memory so far."""
        ...

    def peak_memory_bytes(self) -> int | None:
        """Returns the most memory in use since `reset_peak`; None where unknown."""
        ...


class CpuDevice:
    """This machine's CPU: nothing is queued, so the host's clock is the device's."""

    kind = "cpu"

    def __init__(self) -> None:
        self.name = _cpu_name()
        self.place = torch.device("cpu")

    def move(self, batch: Any) -> Any:
        return move_to(batch, self.place)

    def synchronize(self) -> None:
        return

    def clock(self) -> Mark:
        return time.perf_counter()

    def seconds_between(self, before: Mark, after: Mark) -> float:
        return float(after - before)

    def host_s(self) -> float:
        return time.perf_counter()

    def memory_bytes(self) -> int | None:
        return _kilobytes_of(_MEMORY, "MemTotal")

    def reset_peak(self) -> None:
        try:
            _CLEAR_PEAK.write_text("5", encoding="ascii")  # proc(5): resets VmHWM
        except OSError:
            return  # the peak then counts from the process's start: too high, never too low

    def peak_memory_bytes(self) -> int | None:
        return _kilobytes_of(_STATUS, "VmHWM")


class CudaDevice:
    """An NVIDIA (or ROCm) GPU, timed by CUDA events."""

    kind = "cuda"

    def __init__(self, index: int = 0) -> None:
        if not torch.cuda.is_available() or index >= torch.cuda.device_count():
            raise InputError(f"there is no CUDA device {index} that this build of torch can use")
        self.place = torch.device("cuda", index)
        self.name = str(torch.cuda.get_device_name(index))

    def move(self, batch: Any) -> Any:
        return move_to(batch, self.place)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.place)

    def clock(self) -> Mark:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.place))
        return event

    def seconds_between(self, before: Mark, after: Mark) -> float:
        return float(before.elapsed_time(after)) / 1e3  # torch answers in milliseconds

    def host_s(self) -> float:
        return time.perf_counter()

    def memory_bytes(self) -> int | None:
        return int(torch.cuda.get_device_properties(self.place).total_memory)

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.place)

    def peak_memory_bytes(self) -> int | None:
        return int(torch.cuda.max_memory_reserved(self.place))


class StreamDevice:
    """Any other accelerator with streams and timed events, through `torch.accelerator`."""

    def __init__(self, kind: str, index: int = 0) -> None:
        self.kind = kind
        self.place = torch.device(kind, index)
        self._module: Any = getattr(torch, kind, None)
        event = getattr(torch, "Event", None)
        if self._module is None or event is None or not hasattr(torch, "accelerator"):
            raise InputError(f"this build of torch has no streams and events for {kind!r}")
        self._event = event
        try:
            event(device=self.place, enable_timing=True).record()
            torch.accelerator.synchronize(self.place)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            raise InputError(f"{kind!r} cannot time its own work ({error})") from None
        name = getattr(self._module, "get_device_name", None)
        self.name = str(name(index)) if name else kind

    def move(self, batch: Any) -> Any:
        return move_to(batch, self.place)

    def synchronize(self) -> None:
        torch.accelerator.synchronize(self.place)

    def clock(self) -> Mark:
        event = self._event(device=self.place, enable_timing=True)
        event.record()
        return event

    def seconds_between(self, before: Mark, after: Mark) -> float:
        return float(before.elapsed_time(after)) / 1e3

    def host_s(self) -> float:
        return time.perf_counter()

    def memory_bytes(self) -> int | None:
        properties = getattr(self._module, "get_device_properties", None)
        total = getattr(properties(self.place), "total_memory", None) if properties else None
        return None if total is None else int(total)

    def reset_peak(self) -> None:
        reset = getattr(self._module, "reset_peak_memory_stats", None)
        if reset is not None:
            reset(self.place)

    def peak_memory_bytes(self) -> int | None:
        peak = getattr(self._module, "max_memory_reserved", None)
        return None if peak is None else int(peak(self.place))


def find_device(words: str = "auto") -> Device:
    """Returns the device to train on.

    Args:
        words: `auto` (a GPU where there is one), `cpu`, `cuda`, `cuda:1`, or another device type
            that torch knows.

    Raises:
        InputError: there is no such device.
    """
    if words == "auto":
        words = _best_kind()
    kind, colon, number = words.partition(":")
    if colon and not number.isdecimal():
        raise InputError(f"must be auto, cpu, cuda or cuda:1, not {words!r}", "--device")
    index = int(number or "0")
    if kind == "cpu":
        return CpuDevice()
    if kind == "cuda":
        return CudaDevice(index)
    try:
        return StreamDevice(kind, index)
    except (RuntimeError, InputError) as error:
        raise InputError(
            f"no device {words!r} here ({error}); write auto, cpu or cuda", "--device"
        ) from None


def move_to(batch: Any, place: Any) -> Any:
    """Returns the batch, nested tuples, lists and mappings included, on a torch device."""
    if hasattr(batch, "to"):
        return batch.to(place)
    if isinstance(batch, Mapping):
        items = cast("Mapping[Any, Any]", batch).items()
        return {key: move_to(part, place) for key, part in items}
    if isinstance(batch, (tuple, list)):
        kind = cast("Any", type(cast("object", batch)))
        parts = [move_to(part, place) for part in cast("list[Any]", batch)]
        # A named tuple is built from separate arguments.
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    return batch


def _best_kind() -> str:
    if torch.cuda.is_available():
        return "cuda"
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        return str(accelerator.current_accelerator().type)
    return "cpu"


def _kilobytes_of(path: Path, key: str) -> int | None:
    """Returns the bytes of a line such as `VmHWM:  1234 kB`; None where the system has none."""
    if not path.exists():
        return None
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * KIB
    return None


def _cpu_name() -> str:
    if _CPU.exists():
        for line in _CPU.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"CPU {line.partition(':')[2].strip()}"
    return "CPU"
