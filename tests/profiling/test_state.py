import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from srifty.errors import ProfileFailed
from srifty.profiling.device import CpuDevice
from srifty.profiling.state import fingerprint, snapshot
from srifty.profiling.steps import StepRunner
from srifty.profiling.workload import Workload


def normed(optimizer=None) -> Workload:
    """BatchNorm (buffers), dropout (random numbers), a tied and a frozen parameter."""
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 4),
        torch.nn.BatchNorm1d(4),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(4, 4),
        torch.nn.Linear(4, 4),
    )
    model[3].weight = model[0].weight
    model[4].requires_grad_(False)
    return Workload(
        name="normed",
        model=model,
        loss=lambda model, x: model(x).square().mean(),
        make_batch=lambda size: torch.randn(size, 4),
        optimizer=optimizer(model.parameters()) if optimizer else None,
    )


def train(workload: Workload, steps: int = 3) -> None:
    runner = StepRunner(workload, CpuDevice())
    for _ in range(steps):
        runner.step(workload.batch_of(8))
    random.random()
    np.random.rand()  # noqa: NPY002


@pytest.mark.parametrize("optimizer", [None, torch.optim.AdamW])
@pytest.mark.parametrize("trained_before", [0, 2])
def test_everything_is_put_back(optimizer, trained_before):
    workload = normed(optimizer)
    train(workload, trained_before)
    workload.model.eval()
    before, kept = fingerprint(workload), snapshot(workload)
    train(workload)
    with pytest.raises(ProfileFailed, match=r"0\.weight"):
        kept.verify()
    kept.restore()
    kept.verify()
    assert fingerprint(workload) == before
    assert not workload.model.training


def test_training_goes_on_from_a_restored_state_as_if_nothing_had_been():
    def trained(interrupted: bool):
        torch.manual_seed(1)
        workload = normed(torch.optim.AdamW)
        train(workload, 2)
        if interrupted:
            kept = snapshot(workload)
            train(workload, 5)
            kept.restore()
        train(workload, 2)
        return fingerprint(workload)

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    expected = trained(interrupted=False)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    assert trained(interrupted=True) == expected


def test_a_forgotten_hook_is_named():
    workload = normed()
    kept = snapshot(workload)
    handle = workload.model[0].weight.register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(ProfileFailed, match=r"0\.weight \(hooks\)"):
        kept.verify()
    handle.remove()
    kept.verify()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda model: model[4].requires_grad_(True), "4.bias (trainable)"),
        (lambda model: model[1].running_mean.add_(1), "1.running_mean"),
        (lambda model: model[2].eval(), "2 (train mode)"),
        (lambda model: torch.rand(1), "random numbers of torch"),
        (lambda model: model[0].register_forward_hook(lambda *_: None), "0 (module hooks)"),
    ],
)
def test_each_part_of_the_state_is_watched(change, named):
    workload = normed()
    kept = snapshot(workload)
    change(workload.model)
    with pytest.raises(ProfileFailed) as caught:
        kept.verify()
    assert named in str(caught.value)
