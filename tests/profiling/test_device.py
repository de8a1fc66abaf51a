import pytest

torch = pytest.importorskip("torch")

from srifty.errors import InputError
from srifty.profiling.device import CpuDevice, find_device
from srifty.profiling.testing import FakeAsyncDevice


def test_the_cpu_knows_its_name_and_memory():
    device = find_device("cpu")
    assert device.name.startswith("CPU")
    assert (device.memory_bytes() or 1) > 0


def test_the_cpu_tells_the_peak_of_memory():
    device = CpuDevice()
    if device.peak_memory_bytes() is None:
        pytest.skip("this system does not tell a process's peak of memory")
    device.reset_peak()
    before = device.peak_memory_bytes()
    held = torch.ones(64 * 2**20 // 4)
    assert device.peak_memory_bytes() - before >= 0.9 * held.nbytes


def test_nested_batches_are_moved():
    batch = {"x": (torch.ones(2), [torch.ones(2), "name"])}
    moved = CpuDevice().move(batch)
    assert moved["x"][1][1] == "name"
    assert torch.equal(moved["x"][0], batch["x"][0])


@pytest.mark.parametrize("words", ["cuda:x", "abacus", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(words):
    with pytest.raises(InputError):
        find_device(words)


def test_the_fake_queue_returns_at_once_and_is_waited_for():
    device = FakeAsyncDevice(launch_s=0.001)
    begin = device.clock()
    device.work(1.0)
    assert device.host_s() == pytest.approx(0.001)
    end = device.clock()
    device.synchronize()
    assert device.host_s() == pytest.approx(1.001)
    assert device.seconds_between(begin, end) == pytest.approx(1.001)
