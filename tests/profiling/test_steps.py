import pytest

torch = pytest.importorskip("torch")

from srifty.errors import InputError
from srifty.profiling.device import CpuDevice
from srifty.profiling.steps import StepRunner
from srifty.profiling.testing import FakeAsyncDevice, queued_workload
from srifty.profiling.workload import Workload


def small(**changes) -> Workload:
    model = torch.nn.Linear(4, 1)
    return Workload(
        name="small",
        model=model,
        loss=changes.pop("loss", lambda model, x: model(x).square().mean()),
        make_batch=lambda size: torch.randn(size, 4),
        **changes,
    )


def test_a_step_is_split_as_the_device_worked():
    device = FakeAsyncDevice()
    runner = StepRunner(queued_workload(device), device)
    marks = runner.step(torch.ones(10, 2))
    device.synchronize()
    times = runner.times(marks)
    assert times.forward_s == pytest.approx(0.003, rel=0.02)
    assert times.backward_s == pytest.approx(0.006, rel=0.02)
    assert times.optimizer_s == pytest.approx(0.001, rel=0.02)
    assert times.step_s == pytest.approx(0.010, rel=0.02)


def test_with_accumulation_the_times_are_those_of_one_pass():
    device = FakeAsyncDevice()
    runner = StepRunner(queued_workload(device), device, accumulation=4)
    marks = runner.step(torch.ones(10, 2))
    device.synchronize()
    times = runner.times(marks)
    assert times.forward_s == pytest.approx(0.003, rel=0.02)
    assert times.step_s == pytest.approx(4 * 0.009 + 0.001, rel=0.02)


def test_accumulated_passes_give_the_gradient_of_one():
    batch, gradients = torch.randn(8, 4), []
    for accumulation in (1, 4):
        torch.manual_seed(0)
        workload = small()
        StepRunner(workload, CpuDevice(), accumulation=accumulation).step(batch)
        gradients.append(workload.model.weight.grad)
    assert torch.allclose(*gradients)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_every_precision_trains_and_counts_its_time(precision):
    seen = []

    def loss(model, x):
        output = model(x)
        seen.append(output.dtype)
        return output.float().square().mean()

    workload = small(loss=loss)
    before = workload.model.weight.detach().clone()
    runner = StepRunner(workload, CpuDevice(), precision)
    for _ in range(4):  # a gradient scaler skips steps until its scale has come down
        times = runner.times(runner.step(torch.randn(8, 4)))
    parts = times.forward_s + times.backward_s + times.optimizer_s
    assert parts == pytest.approx(times.step_s)
    assert set(seen) == {
        {"fp32": torch.float32, "bf16": torch.bfloat16}.get(precision, torch.float16)
    }
    assert not torch.equal(before, workload.model.weight)


def test_a_loss_that_is_no_scalar_is_refused():
    runner = StepRunner(small(loss=lambda model, x: model(x)), CpuDevice())
    with pytest.raises(InputError, match="scalar"):
        runner.step(torch.randn(8, 4))
