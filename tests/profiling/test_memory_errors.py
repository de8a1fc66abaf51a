import errno

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

from srifty.profiling.memory_errors import verdict_of
from srifty.profiling.outcome import Verdict


def raised(action) -> BaseException:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        return error
    raise AssertionError("nothing was raised")


def wrapping(inner):
    def action():
        try:
            raise inner
        except type(inner):
            raise ValueError("the batch is too large")  # noqa: B904 - users do so

    return raised(action)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        torch.cuda.OutOfMemoryError("out"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
        RuntimeError("CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        wrapping(torch.OutOfMemoryError("CUDA out of memory")),
    ],
)
def test_the_devices_memory(error):
    assert verdict_of(error, "cuda") is Verdict.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"
        ),
        RuntimeError("std::bad_alloc"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        wrapping(MemoryError()),
    ],
)
def test_the_hosts_memory_is_the_devices_only_on_a_cpu(error):
    assert verdict_of(error, "cuda") is Verdict.OUT_OF_HOST_MEMORY
    assert verdict_of(error, "cpu") is Verdict.OUT_OF_MEMORY


def test_what_torch_itself_says_when_there_is_no_room():
    error = raised(lambda: torch.empty(1 << 60, dtype=torch.uint8))
    assert verdict_of(error, "cpu") is Verdict.OUT_OF_MEMORY


def test_what_torch_itself_says_of_one_sample():
    for make, shape in ((torch.nn.BatchNorm1d, (1, 4)), (torch.nn.BatchNorm2d, (1, 4, 1, 1))):
        layer = make(4)
        error = raised(lambda layer=layer, shape=shape: layer(torch.ones(shape)))
        assert verdict_of(error, "cpu") is Verdict.TOO_SMALL


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: invalid configuration argument"),
        RuntimeError("CUDNN_STATUS_NOT_SUPPORTED"),
        ValueError("CUDA out of memory is what I expected"),
        OSError(errno.ENOENT, "no such file"),
        KeyError("memory"),
        ValueError("Expected more than 1 spatial element when training"),
    ],
)
def test_everything_else_is_no_matter_of_memory(error):
    assert verdict_of(error, "cuda") is Verdict.OTHER_ERROR
