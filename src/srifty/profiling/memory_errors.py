"""Which errors say that memory ran out, and which that a batch is too small (torch)."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

from srifty._torch import torch
from srifty.profiling.outcome import Verdict

# Libraries below torch report a failed allocation in words alone, as a plain RuntimeError.
_DEVICE = re.compile(
    r"(CUDA|HIP|XPU|MPS backend) out of memory|CUDA error: out of memory|"
    r"(CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT|HIPBLAS|MIOPEN)\w*ALLOC\w*(FAILED|ERROR)"
)
_HOST = re.compile(
    r"DefaultCPUAllocator: (can't allocate|not enough) memory|std::bad_alloc|"
    r"unable to mmap \d+ bytes|Cannot allocate memory"
)
_TOO_SMALL = "Expected more than 1 value per channel when training"


def verdict_of(error: BaseException, device_kind: str) -> Verdict:
    """Returns what an error that ended a trial means.

    The error that caused it counts too: user code may wrap what torch raises. On a CPU the host's
    memory is the device's.
    """
    for one in _chain(error):
        if _is_device_memory(one):
            return Verdict.OUT_OF_MEMORY
        if _is_host_memory(one):
            host = device_kind != "cpu"
            return Verdict.OUT_OF_HOST_MEMORY if host else Verdict.OUT_OF_MEMORY
        if isinstance(one, ValueError) and _TOO_SMALL in str(one):
            return Verdict.TOO_SMALL
    return Verdict.OTHER_ERROR


def _is_device_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and bool(_DEVICE.search(str(error)))


def _is_host_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and bool(_HOST.search(str(error)))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
