from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint

from srifty.compute.fit import fit_latency
from srifty.errors import InputError
from srifty.profiling.device import CpuDevice
from srifty.profiling.options import Options
from srifty.profiling.profile import profile
from srifty.profiling.state import fingerprint
from srifty.profiling.testing import FakeAsyncDevice, queued_workload
from srifty.profiling.workload import Workload


def fit(batches, latencies_s):
    return fit_latency(batches, latencies_s).predict


def profiled(device=None, workload=None, **options):
    device = device or FakeAsyncDevice()
    workload = workload or queued_workload(device)
    return profile(workload, device, Options(**({"max_batch": 64} | options)), fit=fit)


def small(model, **changes) -> Workload:
    parts = {
        "name": "small",
        "model": model,
        "loss": lambda model, x: model(x).square().mean(),
        "make_batch": lambda size: torch.randn(size, 4),
    }
    return Workload(**(parts | changes))


def dense():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def on_cpu(workload, **options):
    return profile(
        workload, CpuDevice(), Options(**({"max_batch": 4, "seconds": 1.0, "error": 0.5} | options))
    )


def test_the_latencies_are_those_of_the_device():
    found = profiled()
    assert len(found.latencies) == 4
    assert (found.latencies[0].batch, found.latencies[-1].batch) == (1, 64)
    for latency in found.latencies:
        assert latency.forward_s == pytest.approx(0.002 + 0.0001 * latency.batch, rel=0.02)
        assert latency.backward_s == pytest.approx(0.004 + 0.0002 * latency.batch, rel=0.02)
        assert latency.optimizer_s == pytest.approx(0.001, rel=0.03)
        assert latency.steps >= 10
    assert (found.min_batch, found.max_batch) == (1, 64)
    assert found.gradients.total_bytes == 2 * (4 + 2) * 4
    assert any("were run for" in note for note in found.notes)
    assert any("input is assumed free" in note for note in found.notes)
    assert not any("wall time" in note for note in found.notes)


def test_ready_times_are_known_at_all_timed_sizes_and_some_between():
    found = profiled(batch_sizes=(1, 4, 128), max_batch=128)
    gradients = found.gradients
    # The fake device's fractions depend on no batch: only the gap above 16 asks for others.
    assert gradients.batches == (1, 4, 16, 48, 128)
    for gradient in gradients.gradients:
        for ready in gradient.ready_at.values():
            assert ready == pytest.approx(gradient.ready, abs=0.02)
    assert any("Gradients were timed at batch 1, 4, 16, 48, 128" in note for note in found.notes)
    assert profiled(batch_sizes=(8,)).gradients.batches == ()


def test_the_workload_is_as_before_and_a_second_profile_equals_the_first():
    device = FakeAsyncDevice()
    workload = queued_workload(device)
    workload.model.eval()
    before = fingerprint(workload)
    first = profiled(device, workload)
    assert fingerprint(workload) == before
    second = profiled(device, workload)
    assert [one.batch for one in first.latencies] == [one.batch for one in second.latencies]
    for one, other in zip(first.latencies, second.latencies, strict=True):
        assert other.step_s == pytest.approx(one.step_s, rel=0.01)
    names = [g.name for g in first.gradients.gradients]
    assert [g.name for g in second.gradients.gradients] == names
    assert fingerprint(workload) == before


def test_the_batch_sizes_asked_for_are_timed():
    found = profiled(batch_sizes=(16, 4))
    assert [one.batch for one in found.latencies] == [4, 16]


def test_a_batch_size_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="32 does not fit"):
        profiled(batch_sizes=(4, 32), max_batch=16)


def test_accumulation_gives_the_times_of_one_pass():
    found = profiled(accumulation=3)
    first = found.latencies[0]
    assert first.forward_s == pytest.approx(0.0021, rel=0.02)
    assert first.optimizer_s == pytest.approx(0.001, rel=0.05)


def test_compilation_is_kept_out_of_latencies_and_told(monkeypatch):
    device = FakeAsyncDevice()

    def compile_slowly(model, dynamic):
        seen = set()

        def compiled(x):
            if len(x) not in seen:
                seen.add(len(x))
                device.work(7.0)
            return model(x)

        return compiled

    monkeypatch.setattr(torch, "compile", compile_slowly)
    found = profiled(device, compiled=True)
    assert found.compile_s == pytest.approx(7.0, rel=0.01)
    assert found.latencies[0].step_s == pytest.approx(0.0073, rel=0.03)
    assert found.latencies[0].std_s < 1e-4


def test_more_sizes_than_torch_keeps_compiled_are_refused():
    with pytest.raises(InputError, match="at most 8"):
        Options(compiled=True, probes=9)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_real_models_in_every_precision(precision):
    workload = small(dense())
    before = fingerprint(workload)
    found = on_cpu(workload, precision=precision)
    assert found.precision == precision
    assert fingerprint(workload) == before


def test_frozen_weights_exchange_nothing():
    model = dense()
    model[0].requires_grad_(False)
    found = on_cpu(small(model))
    assert {g.name for g in found.gradients.gradients} == {"2.weight", "2.bias"}
    assert any("frozen" in note for note in found.notes)
    assert not model[0].weight.requires_grad


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_models(reentrant):
    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = dense(), torch.nn.Linear(4, 4)

        def forward(self, x):
            return checkpoint(self.inner, self.outer(x), use_reentrant=reentrant)

    found = on_cpu(small(Checkpointed()))
    assert len(found.gradients.gradients) == 6


def test_the_loader_s_rate_is_measured(monkeypatch):
    monkeypatch.setattr("srifty.profiling.profile._INPUT_SECONDS", 0.1)
    found = on_cpu(small(dense(), loader=lambda workers: [torch.ones(8, 4)] * 10))
    assert found.input_samples_per_s_per_vcpu > 0
    assert not any("assumed free" in note for note in found.notes)


def test_an_error_in_the_user_s_loss_is_told_and_the_state_put_back():
    workload = small(dense(), loss=lambda model, x: model(x).no_such_thing)
    before = fingerprint(workload)
    with pytest.raises(InputError, match="no_such_thing"):
        on_cpu(workload)
    assert fingerprint(workload) == before


def test_what_is_wrong_with_the_options_is_said():
    for wrong in ({"batch_sizes": (0,)}, {"probes": 1}, {"precision": "int8"}, {"seconds": 0}):
        with pytest.raises(InputError):
            Options(**wrong)


class Killed(BaseException):
    """As if the process were gone."""


def test_a_killed_profile_goes_on_where_it_was(tmp_path):
    path = tmp_path / "p.journal"

    def run(kill_after_s=float("inf"), **changes):
        device = FakeAsyncDevice()
        workload = queued_workload(device)

        def progress(fraction):
            if device.host_s() > kill_after_s:
                raise Killed

        options = Options(**({"max_batch": 64} | changes))
        found = profile(workload, device, options, fit=fit, journal_path=path, progress=progress)
        return found, device.host_s()

    whole, whole_s = run()
    assert not path.exists()
    with pytest.raises(Killed):
        run(kill_after_s=0.8 * whole_s)
    with path.open("a") as file:
        file.write('{"chunk": {"batch": 4, "ti')  # the line it was writing
    resumed, rest_s = run()
    assert rest_s < 0.7 * whole_s
    assert [one.batch for one in resumed.latencies] == [one.batch for one in whole.latencies]
    for one, other in zip(whole.latencies, resumed.latencies, strict=True):
        assert other.step_s == pytest.approx(one.step_s, rel=0.02)
    assert any("interrupted" in note for note in resumed.notes)
    assert not path.exists()


def test_a_journal_of_other_options_is_refused(tmp_path):
    path = tmp_path / "p.journal"
    path.write_text(json.dumps({"settings": {"workload": "other"}}) + "\n" + '{"sizes": 1}\n')
    device = FakeAsyncDevice()
    with pytest.raises(InputError, match="--no-resume"):
        profile(queued_workload(device), device, journal_path=path)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"chunk": {"batch": 4}}',
        '{"scouted": {"batch": 4}}',
        '{"trial": {"batch": 4, "verdict": "maybe"}}',
        '{"chosen": [4]}',
        '{"no such kind": 1}',
    ],
)
def test_a_damaged_journal_is_refused_with_its_line(tmp_path, line):
    path = tmp_path / "p.journal"
    device = FakeAsyncDevice()

    def stop(_):
        raise Killed

    with pytest.raises(Killed):
        profile(
            queued_workload(device), device, Options(max_batch=8), journal_path=path, progress=stop
        )
    number = 1 + len(path.read_text().splitlines())
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=f"line {number}"):
        profile(queued_workload(device), device, Options(max_batch=8), journal_path=path)
