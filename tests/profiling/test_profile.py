from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint

from srifty.compute.fit import fit_latency
from srifty.errors import InputError
from srifty.profiling.device import CpuDevice
from srifty.profiling.journal import Journal
from srifty.profiling.options import Options
from srifty.profiling.profile import profile
from srifty.profiling.sizes import find_sizes
from srifty.profiling.state import fingerprint
from srifty.profiling.testing import FakeAsyncDevice, queued_workload
from srifty.profiling.testing_memory import FakeMemoryDevice, counting_workload
from srifty.profiling.trial import TrialSettings
from srifty.profiling.workload import Workload
from tests.profiling.toys import normed


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
    device = FakeMemoryDevice(jitter=0.0)
    with pytest.raises(InputError, match="100 does not fit"):
        profile(counting_workload(), device, Options(batch_sizes=(4, 100)))


@pytest.mark.parametrize(
    ("sizes", "changes", "words"),
    [
        ((4, 32, 64), {"dataset_size": 16}, r"32, 64: above the size of the data set \(16\)"),
        ((4, 32), {"global_batch": 8}, r"32: above the global batch \(8\)"),
        (
            (2, 4, 8),
            {"make_batch": lambda size: torch.ones(size if size < 4 else 3, 4)},
            r"make_batch\(4\) gave a batch of 3, make_batch\(8\) gave a batch of 3; it must",
        ),
    ],
)
def test_sizes_that_cannot_be_are_found_before_anything_is_measured(sizes, changes, words):
    trained = []

    def loss(model, x):
        trained.append(x)
        return model(x).square().mean()

    with pytest.raises(InputError, match=words):
        on_cpu(small(dense(), loss=loss, **changes), batch_sizes=sizes, max_batch=None)
    assert not trained


def test_sizes_above_the_cap_and_twice_the_same_are_refused():
    with pytest.raises(InputError, match=r"32: above --max-batch \(16\)"):
        Options(batch_sizes=(4, 32), max_batch=16)
    with pytest.raises(InputError, match="4 is named twice"):
        Options(batch_sizes=(4, 8, 4))


def test_all_sizes_for_which_make_batch_is_wrong_are_told_together():
    def uneven(size):
        return torch.ones(size if size & (size - 1) == 0 else size + 1, 4)

    with pytest.raises(InputError) as caught:
        on_cpu(small(dense(), make_batch=uneven), max_batch=16, seconds=600)
    for size in (3, 6, 12):
        assert f"make_batch({size}) gave a batch of {size + 1}" in str(caught.value)


def test_sizes_for_which_make_batch_is_wrong_are_told_where_it_ended_the_search():
    right = {1, 2, 4}
    workload = small(dense(), make_batch=lambda size: torch.ones(size if size in right else 9, 4))
    sizes = find_sizes(
        workload,
        CpuDevice(),
        TrialSettings(),
        Journal(None, {}),
        most=64,
        search_s=600.0,
        slow_start_s=600.0,
        reference=None,
    )
    assert sizes.max_batch <= 4
    assert "other error at 8: small: make_batch(8) gave a batch of 9" in sizes.notes[0]
    words = "make_batch(3) gave a batch of 9, make_batch(6) gave a batch of 9; it must give"
    assert any(note.startswith(f"That was not all: {words}") for note in sizes.notes)


@pytest.mark.parametrize("busy_from_s", [0.0, 75.0])
def test_the_time_asked_for_holds_where_steps_are_slow(busy_from_s):
    """A step takes 10 s, or 1.5 s until the machine gets busy: a few steps are run in any case."""
    device = FakeAsyncDevice()
    workload = queued_workload(device, (0.5, 0.0), (1.0, 0.0), 0.0)
    plain, steps, begun = workload.loss, [], []

    def loss(model, x):
        steps.append(len(x))
        if device.host_s() >= busy_from_s:
            device.work(8.5)
        return plain(model, x)

    def progress(fraction):
        begun.append(len(steps))

    workload.loss = loss
    options = Options(max_batch=64, seconds=60.0)
    found = profile(workload, device, options, progress=progress)
    # Per size two steps of warm-up and two that are timed; two for the gradients; up to eight to
    # see that no more can be run to place the sizes.
    assert len(steps) - begun[0] <= 4 * 4 + 2 + 8
    assert len(found.latencies) == 4
    cut = next(note for note in found.notes if note.startswith("Cut short, as 60 s were over"))
    assert "gradients (1 step)" in cut
    if not busy_from_s:
        assert all(f"batch {one.batch} (2 steps)" in cut for one in found.latencies)
    assert any("were not timed themselves, for want of time" in note for note in found.notes)


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


def test_a_loss_that_is_no_number_is_said_and_the_latencies_stand():
    found = on_cpu(small(dense(), loss=lambda model, x: model(x).mean() * float("nan")))
    assert any(
        note.startswith("The loss was nan or infinite at 1, 2, 4: steps") for note in found.notes
    )
    assert not any("became nan" in note for note in found.notes)
    assert len(found.latencies) >= 2
    plain = on_cpu(small(dense()))
    assert not any("nan or infinite" in note for note in plain.notes)


def test_a_loss_that_grows_beyond_numbers_while_it_is_timed_is_said():
    calls = []

    def loss(model, x):
        calls.append(x)
        return model(x).mean() * (1.0 if len(calls) <= 3 * 5 else float("inf"))

    found = on_cpu(small(dense(), loss=loss), seconds=600)
    assert any("became nan or infinite while steps were timed" in note for note in found.notes)


def test_p06_a_profile_lists_what_got_no_gradient_and_does_not_wait_for_it():
    model = torch.nn.ModuleDict({"used": dense(), "unused": torch.nn.Linear(4, 4)})
    model["unused"].bias = torch.nn.Parameter(torch.zeros(4))
    workload = small(model, loss=lambda model, x: model["used"](x).square().mean())
    found = on_cpu(workload)
    assert "find_unused_parameters needed" in found.notes
    assert any("unused.weight" in note and "without a gradient" in note for note in found.notes)
    assert {g.name for g in found.gradients.gradients} == {
        f"used.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")
    }


def test_p08_a_profile_of_batchnorm_on_single_values_begins_at_two_samples():
    found = on_cpu(normed(dataset_size=1201, global_batch=4), max_batch=None, seconds=600)
    assert (found.min_batch, found.max_batch, found.latencies[0].batch) == (2, 4, 2)
    assert any("smallest usable batch is 2" in note for note in found.notes)
    assert not any("out of memory" in note for note in found.notes)


def test_parameters_that_are_not_optimised_are_told():
    model = dense()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    found = on_cpu(small(model, optimizer=optimizer))
    assert "Trainable, but not in the optimizer: 0.weight, 0.bias." in found.notes


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
    monkeypatch.setattr("srifty.profiling.profile._MOST_INPUT_S", 0.1)
    found = on_cpu(small(dense(), loader=lambda workers: [torch.ones(8, 4)] * 10))
    assert found.input_samples_per_s_per_vcpu > 0
    assert not any("assumed free" in note for note in found.notes)


def test_a_loader_that_fails_is_known_before_anything_is_measured(tmp_path):
    trained = []

    def loss(model, x):
        trained.append(x)
        return model(x).square().mean()

    path = tmp_path / "p.journal"
    workload = small(dense(), loss=loss, loader=lambda workers: 1 / 0)
    with pytest.raises(InputError, match="running its loader"):
        profile(workload, CpuDevice(), Options(max_batch=4), journal_path=path)
    assert not trained
    assert not path.exists()  # there is nothing to go on from


def test_an_error_after_measurements_says_that_they_are_kept_and_how_to_go_on(tmp_path):
    broken, opened = [True], []

    def loss(model, x):
        if broken and model.training and len(opened) == 1 and len(x) == 4:
            raise KeyError("no 4")
        return model(x).square().mean()

    def loader(workers):
        opened.append(workers)
        return [torch.ones(8, 4)] * 1000

    path = tmp_path / "p.journal"
    options = Options(batch_sizes=(2, 4), seconds=1.0, error=0.5)
    workload = small(dense(), loss=loss, loader=loader)
    with pytest.raises(InputError) as caught:
        profile(workload, CpuDevice(), options, journal_path=path)
    assert caught.value.__notes__ == [
        f"what was measured is kept in {path}; mend this, and the same command goes on from there"
    ]
    broken.clear()
    found = profile(workload, CpuDevice(), options, journal_path=path)
    assert found.input_samples_per_s_per_vcpu > 0
    assert opened == [1]  # the loader's rate was kept, too
    assert not path.exists()


def test_an_error_in_the_user_s_loss_is_told_and_the_state_put_back():
    workload = small(dense(), loss=lambda model, x: model(x).no_such_thing)
    before = fingerprint(workload)
    with pytest.raises(InputError, match="no_such_thing"):
        on_cpu(workload)
    assert fingerprint(workload) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"make_batch": {8: None}.__getitem__}, "failed while making a batch of 1: KeyError: 1"),
        ({"make_batch": lambda size: None}, "make_batch(1) returned None; it must return a tensor"),
        ({"loss": lambda model, x: 1 / 0}, "failed while training on 1 sample: ZeroDivisionError"),
        ({"loss": lambda model, x: 0.5}, "depends on trainable parameters, not a float"),
        ({"loss": lambda model, x: model(x)}, "not a tensor of shape (1, 2); .mean() or .sum()"),
        ({"loss": lambda model, x: model(x).detach().mean()}, "not one without a gradient"),
    ],
)
def test_where_nothing_was_measured_the_cause_comes_first_and_nothing_is_kept(
    tmp_path, changes, words
):
    path = tmp_path / "p.journal"
    with pytest.raises(InputError) as caught:
        profile(small(dense(), **changes), CpuDevice(), Options(), journal_path=path)
    (problem,) = caught.value.problems
    assert words in problem.message
    assert problem.message.startswith(("failed while", "make_batch(1)", "loss must"))
    assert not hasattr(caught.value, "__notes__")
    assert not path.exists()


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
        '{"input": "fast"}',
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
