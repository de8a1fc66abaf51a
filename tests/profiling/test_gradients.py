import time

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from srifty.core import GradientSync, SyncMode
from srifty.core.profile import Gradient, GradientSchedule
from srifty.errors import InputError
from srifty.profiling.device import CpuDevice
from srifty.profiling.gradients import GradientTimes, measure_gradients, measure_overhead, watched
from srifty.profiling.ready_times import cut_sizes, next_batch, ready_error, with_batches
from srifty.profiling.steps import StepRunner
from srifty.profiling.testing import FakeAsyncDevice, queued_workload
from srifty.profiling.workload import Workload
from srifty.simulator.transfers import transfers_of
from tests.profiling import models


class CountingDevice(CpuDevice):
    """A CPU whose time is the work that torch was asked to do, not how long it took.

    An operation costs a fixed time, and more by its elements and multiply-adds: the fixed share
    falls with the batch, as it does on real devices.
    """

    START_UP_S = 5e-6
    PER_ELEMENT_S = 4e-10
    PER_FLOP_S = 2e-11

    def __init__(self):
        super().__init__()
        self._now_s = 0.0

    def counting(self):
        device = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                result = function(*args, **(kwargs or {}))
                tensors = [a for a in args if isinstance(a, torch.Tensor)]
                elements = sum(tensor.numel() for tensor in tensors)
                flops = flop_registry.get(function.overloadpacket, lambda *_, **__: 0)
                device._now_s += device.START_UP_S + device.PER_ELEMENT_S * elements
                device._now_s += device.PER_FLOP_S * flops(*args, **(kwargs or {}), out_val=result)
                return result

        return Mode()

    def clock(self):
        return self._now_s

    def host_s(self):
        return self._now_s


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def measure(case, batch=16, *, device=None, accumulation=1, **options):
    runner = StepRunner(models.workload(case), device or CpuDevice(), accumulation=accumulation)
    return measure_gradients(runner, case.make_batch(batch), **options)


def counted(case, batch, **options):
    device = CountingDevice()
    with device.counting():
        return measure(case, batch, device=device, steps=3, warm_up=1, **options)


def names_of(times):
    return [gradient.name for gradient in times.schedule.gradients]


def hooks_of(model):
    return [dict(p._post_accumulate_grad_hooks or {}) for p in model.parameters()]


def test_ready_times_are_fractions_of_the_backward_pass_on_the_devices_clock():
    device = FakeAsyncDevice()
    workload = queued_workload(device, layers=4)
    times = measure_gradients(StepRunner(workload, device), torch.ones(10, 2))
    # The last layer's gradients come after a quarter of the work. The host queues everything at
    # once: by its clock all would be ready at the start.
    ready = {g.name: g.ready for g in times.schedule.gradients}
    for layer in range(4):
        for part in ("weight", "bias"):
            assert ready[f"{layer}.linear.{part}"] == pytest.approx((4 - layer) / 4, abs=0.01)
    assert times.schedule.total_bytes == 4 * (4 + 2) * 4
    assert not times.schedule.estimated
    assert times.notes == ()


def test_times_are_the_median_of_the_steps_after_the_warm_up():
    device = FakeAsyncDevice()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    seconds = iter([(9, 1), (1, 9), (2, 8), (5, 5), (3, 7)])  # of layer 1 and of layer 0, per step

    class Work(torch.autograd.Function):
        @staticmethod
        def forward(context, x, layer):
            context.layer = layer
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            device.work(spent[context.layer])
            return gradient, None

    spent = {}

    def loss(model, x):
        spent[1], spent[0] = next(seconds)
        x = Work.apply(model[0](x), 0)
        return Work.apply(model[1](x), 1).sum()

    workload = Workload("steps", model, loss, lambda size: torch.ones(size, 2))
    times = measure_gradients(StepRunner(workload, device), torch.ones(4, 2), steps=3, warm_up=2)
    ready = [gradient.ready for gradient in times.schedule.gradients]
    assert ready == pytest.approx([0.3, 0.3, 1.0, 1.0], abs=1e-4)  # of 0.2, 0.5, 0.3
    assert times.steps == 3
    assert next(seconds, None) is None


@pytest.mark.parametrize("make", [models.cnn, models.transformer], ids=["cnn", "transformer"])
def test_one_batch_size_predicts_another(make):
    torch.manual_seed(0)
    small, large = counted(make(), 16), counted(make(), 128)
    assert ready_error(small.schedule, large.schedule) <= 0.03
    # The clock does see the batch: one sample is mostly fixed cost.
    single = counted(make(), 2)
    assert ready_error(single.schedule, large.schedule) > ready_error(
        small.schedule, large.schedule
    )


@pytest.mark.parametrize("name", sorted(models.DDP_MODELS))
def test_profiling_twice_gives_the_same_gradients_in_the_same_order(name):
    case = models.DDP_MODELS[name]()
    first = measure(case, 2, steps=2, warm_up=0)
    second = measure(case, 4, steps=1, warm_up=1)
    sparse = set(first.sparse)
    described = [
        [(g.name, None if g.name in sparse else g.bytes) for g in times.schedule.gradients]
        for times in (first, second)
    ]
    assert described[0] == described[1]
    assert first.steady_order
    assert first.notes == second.notes


def test_p06_unused_and_shared_parameters_are_told_and_not_waited_for():
    case = models.unused()
    times = measure(case)
    assert times.unused == ("unused.weight", "spare.weight", "spare.bias")
    assert times.shared == (("unused.bias", "body.1.bias"),)
    assert times.silent == times.unused
    assert times.needs_find_unused_parameters
    assert times.notes[0] == "find_unused_parameters needed"
    assert sum(g.bytes for g in times.schedule.gradients) == 4 * (600 + 1) * 600 * 4
    assert times.schedule.total_bytes == (4 * 601 * 600 + 600 * 600 + 601 * 50) * 4
    assert set(names_of(times)).isdisjoint(times.silent)
    assert "body.1.bias" not in names_of(times)


def test_p06_frozen_weights_count_for_nothing_and_need_no_search():
    base = torch.nn.Sequential(torch.nn.Linear(2500, 2000), torch.nn.Linear(2000, 2500))
    base.requires_grad_(requires_grad=False)
    adapters = torch.nn.Sequential(
        torch.nn.Linear(2500, 10, bias=False), torch.nn.Linear(10, 2500, bias=False)
    )
    model = torch.nn.ModuleDict({"base": base, "adapters": adapters})
    workload = Workload(
        "adapters",
        model,
        lambda model, x: (model["base"](x) + model["adapters"](x)).square().mean(),
        lambda size: torch.randn(size, 2500),
    )
    times = measure_gradients(StepRunner(workload, CpuDevice()), torch.randn(2, 2500), steps=1)
    assert times.schedule.total_bytes == 50_000 * 4
    assert times.frozen == tuple(
        f"base.{layer}.{part}" for layer in (0, 1) for part in ("weight", "bias")
    )
    assert times.unused == ()
    assert not times.needs_find_unused_parameters


def test_a_tied_weight_is_ready_with_its_last_contribution():
    # Used by the first and the last layer; the adapters lie between.
    times = measure(models.adapted(), 2, steps=1, warm_up=0)
    names = names_of(times)
    assert names.index("first.weight") > names.index("down.0.weight")
    assert names.count("first.weight") == 1
    assert "last.weight" not in names
    assert times.repeated == ()  # autograd adds up before it accumulates


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_block_that_is_used_twice_is_ready_after_its_first_use(reentrant):
    device = CountingDevice()
    case = models.checkpointed(reentrant=reentrant)
    with device.counting():
        times = measure(case, 8, device=device, steps=2, warm_up=0)
    assert names_of(times) == [
        f"{layer}.{part}" for layer in ("last", "block", "first") for part in ("bias", "weight")
    ]
    ready = {gradient.name: gradient.ready for gradient in times.schedule.gradients}
    assert ready["block.bias"] > 0.5  # its first contribution comes in the first half
    assert times.repeated == (("block.weight", "block.bias") if reentrant else ())
    assert times.schedule.total_bytes == 3 * 65 * 64 * 4


def test_with_accumulation_only_the_last_pass_counts():
    whole = counted(models.mlp(), 16)
    parts = counted(models.mlp(), 16, accumulation=3)
    assert names_of(parts) == names_of(whole)
    assert parts.repeated == ()
    assert ready_error(whole.schedule, parts.schedule) < 0.03


def test_a_gradient_of_an_earlier_pass_alone_is_no_gradient_of_the_last():
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    passes = []

    def loss(model, x):
        passes.append(len(passes))
        both = len(passes) % 2  # the first pass of each step uses both layers
        return (model[0](x) + (model[1](x) if both else 0)).sum()

    workload = Workload("twice", model, loss, lambda size: torch.ones(size, 2))
    runner = StepRunner(workload, CpuDevice(), accumulation=2)
    times = measure_gradients(runner, torch.ones(2, 2), steps=2, warm_up=0)
    assert names_of(times) == ["0.bias", "0.weight"]
    assert times.unused == ("1.weight", "1.bias")


def test_a_parameter_that_is_used_now_and_then_needs_the_search():
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    steps = []

    def loss(model, x):
        steps.append(len(steps))
        return (model[0](x) + (model[1](x) if len(steps) % 3 else 0)).sum()

    workload = Workload("sometimes", model, loss, lambda size: torch.ones(size, 2))
    times = measure_gradients(StepRunner(workload, CpuDevice()), torch.ones(2, 2), steps=6)
    assert times.sometimes == ("1.weight", "1.bias")
    assert times.unused == ()
    assert times.needs_find_unused_parameters
    assert not times.steady_order
    assert len(times.schedule.gradients) == 4


def test_parameters_of_one_memory_with_gradients_of_their_own_are_all_sent():
    first, second = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
    second.weight = torch.nn.Parameter(first.weight.detach())
    workload = Workload(
        "views",
        torch.nn.Sequential(first, second),
        lambda model, x: model(x).sum(),
        lambda size: torch.ones(size, 4),
    )
    times = measure_gradients(StepRunner(workload, CpuDevice()), torch.ones(2, 4), steps=1)
    assert times.schedule.total_bytes == 2 * 16 * 4
    assert times.overlapping == ("0.weight", "1.weight")
    assert times.shared == ()


def test_views_of_one_flat_memory_count_once_each():
    flat = torch.zeros(32)
    layers = [torch.nn.Linear(4, 4, bias=False) for _ in range(2)]
    for at, layer in enumerate(layers):
        layer.weight = torch.nn.Parameter(flat[16 * at : 16 * (at + 1)].view(4, 4))
    workload = Workload(
        "flat",
        torch.nn.Sequential(*layers),
        lambda model, x: model(x).sum(),
        lambda size: torch.ones(size, 4),
    )
    times = measure_gradients(StepRunner(workload, CpuDevice()), torch.ones(2, 4), steps=1)
    assert times.schedule.total_bytes == flat.numel() * 4
    assert times.overlapping == ()


def test_sparse_gradients_count_what_they_hold():
    times = measure(models.sparse(), 8, steps=1, warm_up=0)
    gradient = next(g for g in times.schedule.gradients if g.name == "words.weight")
    rows = 8 * 4  # tokens
    assert gradient.bytes == rows * (64 * 4 + 8)
    assert times.sparse == ("words.weight",)


def test_hooks_are_gone_after_the_measurement_and_after_an_error():
    case = models.cnn()
    before = hooks_of(case.model)
    measure(case, 2, steps=1, warm_up=0)
    assert hooks_of(case.model) == before

    def failing(model, x):
        raise RuntimeError("out of luck")

    workload = Workload("failing", case.model, failing, case.make_batch)
    with pytest.raises(RuntimeError, match="out of luck"):
        measure_gradients(StepRunner(workload, CpuDevice()), case.make_batch(2))
    assert hooks_of(case.model) == before
    with (
        pytest.raises(RuntimeError, match="require gradient"),
        watched([torch.ones(1)], time.monotonic),
    ):
        pass
    parameter = torch.nn.Parameter(torch.ones(1))
    with (
        pytest.raises(RuntimeError, match="require gradient"),
        watched([parameter, torch.ones(1)], time.monotonic),
    ):
        pass
    assert not parameter._post_accumulate_grad_hooks


def test_hooks_of_the_users_stay():
    case = models.cnn()
    calls = []
    parameter = next(case.model.parameters())
    parameter.register_post_accumulate_grad_hook(lambda _: calls.append(1))
    measure(case, 2, steps=2, warm_up=1)
    assert len(calls) == 3
    assert len(parameter._post_accumulate_grad_hooks) == 1


def test_an_optimizer_that_steps_in_the_backward_pass_hides_nothing():
    case = models.mlp()
    for parameter in case.model.parameters():

        def step(parameter):
            parameter.data.sub_(parameter.grad, alpha=1e-3)
            parameter.grad = None

        parameter.register_post_accumulate_grad_hook(step)
    times = measure(case, 2, steps=1, warm_up=0)
    assert times.schedule.total_bytes == sum(p.numel() * 4 for p in case.model.parameters())
    assert times.unused == ()


class CostlyMarks(FakeAsyncDevice):
    """A device on which a mark takes a while."""

    def __init__(self, mark_s):
        super().__init__()
        self.mark_s = mark_s

    def clock(self):
        self.work(self.mark_s)
        return super().clock()


def test_the_overhead_is_what_the_marks_cost():
    device = CostlyMarks(mark_s=1e-4)
    runner = StepRunner(queued_workload(device, layers=5), device)
    overhead = measure_overhead(runner, torch.ones(10, 2))
    # 10 parameters; a step takes 10 ms and 4 marks of its own after its first.
    assert overhead.fraction == pytest.approx(10 * 1e-4 / (0.010 + 4 * 1e-4), rel=0.02)
    assert overhead.std < 1e-3
    assert overhead.pairs == 10
    assert not any(hooks_of(runner.workload.model))
    device.mark_s = 0.0
    assert measure_overhead(runner, torch.ones(10, 2)).fraction == pytest.approx(0, abs=0.01)


def test_what_cannot_be_measured_is_refused():
    case = models.mlp()
    runner = StepRunner(models.workload(case), CpuDevice())
    with pytest.raises(InputError, match="cannot average 0 steps"):
        measure_gradients(runner, case.make_batch(2), steps=0)
    with pytest.raises(InputError, match="2 pairs"):
        measure_overhead(runner, case.make_batch(2), pairs=1)
    stopped = CountingDevice()  # without its mode nothing counts
    with pytest.raises(InputError, match="stood still"):
        measure(case, 2, device=stopped)


def test_a_loss_of_other_tensors_alone_gives_no_gradients():
    other = torch.ones(1, requires_grad=True)
    model = torch.nn.Linear(2, 2)
    workload = Workload("other", model, lambda *_: other.sum(), lambda size: torch.ones(size, 2))
    with pytest.raises(InputError, match="no parameter got a gradient"):
        measure_gradients(StepRunner(workload, CpuDevice()), torch.ones(2, 2), steps=1)


def test_ready_times_of_different_models_are_not_compared():
    one = GradientSchedule((Gradient("a", 4, 0.5),))
    other = GradientSchedule((Gradient("b", 4, 0.5),))
    assert ready_error(one, GradientSchedule((Gradient("a", 4, 0.75),))) == 0.25
    for pair in ((one, other), (GradientSchedule(()), GradientSchedule(()))):
        with pytest.raises(InputError, match="of one model"):
            ready_error(*pair)


def read_at(schedule, batch):
    """Returns name → ready time at a batch size, as plans read it."""
    sent = transfers_of(schedule, GradientSync(SyncMode.PER_LAYER))
    ready = sent.ready_at("any", np.array([batch]))[0].tolist()
    return dict(zip(sent.names, ready, strict=True))


def test_a_schedule_of_several_batch_sizes_tells_those_between_them():
    torch.manual_seed(0)
    sizes = {batch: counted(models.cnn(), batch) for batch in (2, 16, 32, 64)}
    stored = with_batches(sizes[16], [sizes[64], sizes[2]])
    assert stored.batches == (2, 16, 64)
    assert names_of(sizes[16]) == [gradient.name for gradient in stored.gradients]
    for batch in (2, 16, 64):
        known = {g.name: g.ready for g in sizes[batch].schedule.gradients}
        assert {g.name: g.ready_at[batch] for g in stored.gradients} == known

    def error(schedule):
        at_32 = read_at(schedule, 32)
        observed = sizes[32].schedule.gradients
        return sum(abs(at_32[g.name] - g.ready) for g in observed) / len(observed)

    assert error(stored) < 0.01
    assert error(sizes[2].schedule) > 0.03


def made_up(batch, *ready):
    gradients = tuple(Gradient(str(at), 4, fraction) for at, fraction in enumerate(ready))
    nothing = dict.fromkeys(
        ("unused", "sometimes", "frozen", "shared", "overlapping", "sparse", "repeated"), ()
    )
    schedule = GradientSchedule(gradients)
    return GradientTimes(batch, 1.0, schedule, **nothing, steady_order=True, steps=1)


def test_sizes_at_which_other_gradients_came_are_left_out():
    one, other = made_up(16, 0.5, 1.0), made_up(32, 1.0)
    assert with_batches(one, [other]) == one.schedule
    assert with_batches(one, [other, made_up(8, 0.25, 1.0)]).batches == (8, 16)


CANDIDATES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@pytest.mark.parametrize(
    ("sizes", "asked"),
    [
        ({16: 0.5, 64: 0.51}, None),
        ({1: 0.1, 8: 0.9}, None),  # small sizes as they were timed
        ({16: 0.5, 64: 0.6}, 32),  # they differ
        ({16: 0.5, 24: 0.6}, None),  # nothing lies between
        ({16: 0.5, 256: 0.5}, 64),  # far apart
        ({4: 0.5, 128: 0.5}, 16),
        ({16: 0.1, 32: 0.9, 192: 0.9}, 64),  # the gap comes first ...
        ({16: 0.1, 32: 0.9, 64: 0.9, 192: 0.8}, 24),  # ... then the largest difference
        ({16: 0.5}, None),
    ],
)
def test_ready_times_are_measured_where_neighbours_say_too_little(sizes, asked):
    measured = [made_up(batch, ready) for batch, ready in sizes.items()]
    assert next_batch(measured, CANDIDATES) == asked


def test_times_know_their_batch_and_the_length_of_the_backward_pass():
    device = FakeAsyncDevice()
    times = measure_gradients(StepRunner(queued_workload(device), device), torch.ones(10, 2))
    assert times.batch == 10
    assert times.backward_s == pytest.approx(0.006, rel=0.01)


def test_sizes_without_ready_times_are_told_with_what_stands_in_for_them():
    assert cut_sizes((16, 64), ()) == ()
    assert cut_sizes((16, 64), (128, 32, 1, 4)) == (
        "gradients at batch 1, 4 (the ready times of 16 are taken)",
        "gradients at batch 32 (ready times are interpolated between 16 and 64)",
        "gradients at batch 128 (the ready times of 64 are taken)",
    )
