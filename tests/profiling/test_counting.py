"""What a step does, against published architectures and arithmetic by hand."""

import copy
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional

from srifty.errors import InputError
from srifty.profiling.counting import OUTSIDE, count
from srifty.profiling.device import find_device
from srifty.profiling.gradients import measure_gradients
from srifty.profiling.steps import StepRunner
from tests.profiling.counted_models import (
    Encoder,
    ResNet50,
    Tables,
    Vgg16,
    clicks,
    images,
    tokens,
)
from tests.profiling.models import DDP_MODELS, Case, mlp, workload

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import architectures


def layer(work, name):
    (found,) = [layer for layer in work.layers if layer.name == name]
    return found


@pytest.fixture(scope="module")
def encoder():
    return count(tokens(Encoder()))


@pytest.mark.parametrize(
    ("model", "table"),
    [(ResNet50, architectures.resnet50), (Vgg16, architectures.vgg16_bn)],
    ids=["ResNet-50", "VGG-16"],
)
def test_published_architectures_are_counted_as_their_tables(model, table):
    work = count(images(model()))
    known = table()
    assert work.flops == pytest.approx(sum(spec.flops for spec in known), rel=0.02)
    assert sum(layer.parameters for layer in work.layers) == sum(s.parameters for s in known)
    elements = sum(layer.bytes for layer in work.layers) / 4
    assert elements == pytest.approx(sum(spec.elements for spec in known), rel=0.1)
    convolutions = {name for name in work.fast_layers if "conv" in name or "features" in name}
    assert len(convolutions) == sum(spec.fast for spec in known)
    assert work.backward_ratio == pytest.approx(2.0, abs=0.05)
    assert work.min_batch == 2
    assert work.gradients is not None
    assert work.gradients.total_bytes == 4 * sum(spec.parameters for spec in known)
    assert work.notes == ()


def test_attention_counts_both_of_its_products(encoder):
    # 16 tokens, 4 heads of 16: two products of 2 x 16 x 16 x 16 operations per head.
    assert layer(encoder, "(the model itself)").flops == 2 * 4 * 2 * 16**3


def test_linear_layers_count_twice_their_weights_per_token(encoder):
    assert layer(encoder, "qkv").flops == 2 * 64 * 192 * 16
    assert layer(encoder, "qkv").bytes == 4 * 192 * 16
    assert layer(encoder, "qkv").parameters == 64 * 192 + 192
    assert layer(encoder, OUTSIDE).flops == 0


def test_tied_weights_count_once(encoder):
    assert layer(encoder, "embed").parameters == 64_000
    assert layer(encoder, "out").parameters == 0
    assert layer(encoder, "out").flops == 2 * 64 * 1000 * 16
    loose = count(tokens(Encoder(tied=False)))
    apart = sum(layer.parameters for layer in loose.layers)
    assert apart == sum(layer.parameters for layer in encoder.layers) + 64_000


def test_frozen_weights_have_no_gradient_and_a_shorter_backward_pass(encoder):
    model = Encoder(tied=False)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("out")
    work = count(tokens(model))
    assert sum(layer.parameters for layer in work.layers) == 64_000
    assert [gradient.name for gradient in work.gradients.gradients] == ["out.weight"]
    assert work.flops == pytest.approx(encoder.flops)
    # The frozen layers below need nothing; the output's weights one product as large as its own.
    assert work.backward_ratio == pytest.approx(layer(work, "out").flops / work.flops)


def test_embedding_bags_move_bytes_and_count_their_tables():
    work = count(clicks(Tables()))
    bag = layer(work, "bags.0")
    assert bag.flops == 0
    assert bag.parameters == 16_000
    assert bag.bytes >= 4 * 16
    assert work.flops == 2 * (64 * 32 + 32)
    assert work.min_batch == 1


def test_recurrent_layers_are_counted():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 8, batch_first=True)
            self.out = nn.Linear(8, 1)

        def forward(self, ids):
            states, _ = self.lstm(functional.one_hot(ids, 8).float())
            return self.out(states)

    workload = tokens(Recurrent())
    workload.loss = lambda net, ids: net(ids).sum()
    work = count(workload)
    assert layer(work, "lstm").flops == 2 * 16 * (8 + 8) * 4 * 8


def test_memory_is_weights_optimizer_and_what_each_sample_adds():
    model = nn.Sequential(nn.Linear(1000, 1000, bias=False), nn.Linear(1000, 1, bias=False))

    def work(optimizer):
        workload = images(model)
        workload.make_batch = lambda n: torch.zeros(n, 1000)
        workload.loss = lambda net, rows: net(rows).sum()
        workload.optimizer = optimizer
        return count(workload)

    plain = work(torch.optim.SGD(model.parameters(), lr=0.1)).memory
    adam = work(torch.optim.Adam(model.parameters(), lr=0.1)).memory
    # Weights and their gradients; Adam holds two moments more while the gradients are there.
    assert plain.fixed_bytes >= 2 * 4 * 1_001_000
    assert adam.fixed_bytes - plain.fixed_bytes >= 2 * 4 * 1_001_000
    # Input, hidden row and what the backward pass makes of it.
    assert 4 * 2_000 <= plain.sample_bytes <= 4 * 4_010


def test_half_precision_takes_less_memory_per_sample_and_counts_the_same_work(encoder):
    half = count(tokens(Encoder()), precision="bf16")
    assert half.flops == encoder.flops
    assert half.memory.sample_bytes < encoder.memory.sample_bytes
    assert half.precision == "bf16"


def test_the_workload_stays_as_it_was():
    model = Encoder().eval()
    model.qkv.weight.grad = torch.ones_like(model.qkv.weight)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    workload = tokens(model, optimizer=optimizer)
    workload.make_batch = lambda n: torch.randint(0, 1000, (n, 16))
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    torch.manual_seed(7)
    state = torch.get_rng_state()
    count(workload)
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[0][name])
    assert str(optimizer.state_dict()) == str(before[1])
    assert not model.training
    assert torch.equal(model.qkv.weight.grad, torch.ones_like(model.qkv.weight))
    assert model.out.weight is model.embed.weight


def test_batches_are_told():
    told = []
    count(clicks(Tables()), on_batch=told.append)
    assert told == [8, 16, 32]


@pytest.mark.parametrize("name", [*DDP_MODELS, "frozen"])
def test_what_is_exchanged_is_what_a_measurement_finds(name):
    case = mlp() if name == "frozen" else DDP_MODELS[name]()
    if name == "frozen":
        case.model[2].requires_grad_(requires_grad=False)
    toy = workload(case)
    runner = StepRunner(toy, find_device("cpu"))
    measured = measure_gradients(runner, toy.batch_of(32), steps=1, warm_up=1)
    work = count(toy)
    found = work.gradients

    def about(parameters):
        return [(g.name, g.dtype, g.sparse, g.sparse or g.bytes) for g in parameters]

    assert about(found.registered) == about(measured.schedule.registered)
    assert about(found.unused) == about(measured.schedule.unused)
    assert found.find_unused_parameters == measured.schedule.find_unused_parameters
    told = {note for note in measured.notes if "find_unused" in note or "without" in note}
    assert told <= set(work.notes)
    assert bool(told) == (name == "unused")


def test_a_gradient_that_stays_away_at_some_sizes_has_to_be_found():
    class Fickle(nn.Module):
        def __init__(self):
            super().__init__()
            self.always = nn.Linear(16, 16)
            self.small = nn.Linear(16, 16)

        def forward(self, x):
            return self.always(self.small(x) if len(x) < 10 else x)

    work = count(workload(Case(Fickle(), lambda size: torch.randn(size, 16))))
    assert work.gradients.unused == ()
    assert work.gradients.find_unused_parameters
    assert "without a gradient in some steps: small.weight, small.bias" in work.notes


def test_work_that_is_not_proportional_is_said():
    workload = clicks(Tables())

    def loss(net, ids):
        rows = net.bags[0](ids[:, 0])
        return (rows @ rows.T).mean()

    workload.loss = loss
    assert any("in proportion" in note for note in count(workload).notes)


def test_a_step_that_needs_values_is_refused_with_its_reason():
    workload = clicks(Tables())
    workload.loss = lambda net, ids: net(ids).sum() * ids.sum().item()
    with pytest.raises(InputError, match=r"needs the values of tensors.*\.item\(\)"):
        count(workload)


def test_a_step_that_fails_is_told_as_the_users():
    workload = clicks(Tables())
    workload.loss = lambda net, ids: net(ids) @ net(ids)
    with pytest.raises(InputError, match=r"failed while counting a step of 8 samples"):
        count(workload)


def test_a_step_that_ignores_its_batch_is_refused():
    workload = clicks(Tables())
    workload.loss = lambda net, ids: net.top[0].weight.sum()
    with pytest.raises(InputError, match="grows with the batch"):
        count(workload)
