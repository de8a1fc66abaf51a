import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

from srifty.core.profile import BatchLatency, WorkloadProfile
from srifty.errors import ProfileFailed
from srifty.profiling import trial
from srifty.profiling.device import CpuDevice
from srifty.profiling.host_memory import allowed_bytes, resident_bytes
from srifty.profiling.limit import find_limit
from srifty.profiling.outcome import Bounds, Verdict
from srifty.profiling.state import fingerprint
from srifty.profiling.testing_memory import FakeMemoryDevice, counting_workload
from srifty.profiling.trial import InProcessTrials, TrialSettings, bounds_of, run_trial
from srifty.units import MIB
from tests.profiling.toys import LAUNCH_LIMIT, mlp, normed, refuse_large_launches

SETTINGS = TrialSettings()


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def limit_of(workload, device=None, user=None, settings=SETTINGS, **keys):
    device = device or CpuDevice()
    return find_limit(
        InProcessTrials(workload, device, settings),
        bounds_of(workload, device, user),
        least_steps=settings.total_steps,
        **keys,
    )


def test_p01_every_size_is_trained_in_full_and_the_state_is_as_before():
    workload = counting_workload(global_batch=64)
    before = fingerprint(workload)
    limit = limit_of(workload, settings=TrialSettings(warm_up=2, steps=3))
    model = workload.model
    assert limit.raw_max == 64
    fitting = [outcome.batch for outcome in limit.outcomes if outcome.fits]
    assert fitting == [2, 4, 8, 16, 32, 64]
    assert {batch: model.forwards[batch] for batch in fitting} == dict.fromkeys(fitting, 5)
    assert dict(model.backwards) == dict.fromkeys(fitting, 5)
    assert fingerprint(workload) == before


def test_a_model_in_eval_mode_is_trained_in_train_mode_and_left_in_eval_mode():
    workload = counting_workload(global_batch=4)
    workload.model.eval()
    before = fingerprint(workload)
    assert limit_of(workload).raw_max == 4
    assert workload.model.forwards[4] == SETTINGS.total_steps
    assert not workload.model.training
    assert fingerprint(workload) == before


def test_the_state_is_as_before_after_running_out_of_memory_and_other_errors():
    def fail_at_8(batch):
        if len(batch) == 8:
            raise KeyError("no 8")

    for device, changes in (
        (FakeMemoryDevice(), {}),
        (CpuDevice(), {"loss": lambda m, x: fail_at_8(x) or m(x).square().mean()}),
    ):
        workload = counting_workload(**changes)
        before = fingerprint(workload)
        assert limit_of(workload, device, user=200).evidence in {"measured", "stopped-at"}
        assert fingerprint(workload) == before


def test_what_a_loss_leaves_behind_is_noticed():
    def loss(model, x):
        model.register_forward_hook(lambda *_: None)
        return model(x).square().mean()

    with pytest.raises(ProfileFailed):
        limit_of(counting_workload(loss=loss))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_steps_that_a_gradient_scaler_skips_do_not_count(precision):
    workload = counting_workload()
    steps = []
    workload.optimizer.register_step_post_hook(lambda *_: steps.append(1))
    outcome = run_trial(workload, CpuDevice(), 8, TrialSettings(precision=precision))
    assert outcome.fits, outcome.message
    assert outcome.steps == len(steps) == SETTINGS.total_steps
    assert workload.optimizer.state  # AdamW's moments: what a first step allocates


def test_gradients_that_always_overflow_show_nothing():
    workload = mlp(make_batch=lambda size: torch.full((size, 4), 1e30))
    outcome = run_trial(workload, CpuDevice(), 8, TrialSettings(precision="fp16"))
    assert outcome.verdict is Verdict.OTHER_ERROR
    assert "the optimizer stepped 0 times" in outcome.message


def test_a_loss_that_leaves_train_mode_shows_nothing():
    workload = counting_workload(loss=lambda model, x: model.eval()(x).square().mean())
    outcome = run_trial(workload, CpuDevice(), 8, SETTINGS)
    assert outcome.verdict is Verdict.OTHER_ERROR
    assert "train mode" in outcome.message


def test_p02_a_data_set_of_a_thousand_samples_bounds_the_search():
    limit = limit_of(mlp(dataset_size=1000, make_batch=lambda size: torch.ones(size, 4)[:1000]))
    assert limit.raw_max == 1000
    assert limit.reason == "limit: 1,000, the size of the data set"
    assert max(outcome.batch for outcome in limit.outcomes) == 1000


def test_p02_a_loader_that_gives_the_same_short_batch_ends_the_search():
    limit = limit_of(mlp(make_batch=lambda size: torch.ones(min(size, 1000), 4)))
    assert limit.raw_max == 512
    assert "other error at 1,024" in limit.reason
    assert "make_batch(1024) gave a batch of 4" in limit.reason or "of 1000" in limit.reason


def test_p02_an_unbounded_tiny_model_is_not_driven_up_for_ever():
    limit = limit_of(mlp())
    assert limit.raw_max <= 65_536
    assert limit.evidence == "stopped-at"


def test_p02_a_launch_limit_is_another_error_with_its_message():
    limit = limit_of(mlp(refuse_large_launches), user=1 << 20)
    assert limit.raw_max == 32_768
    assert limit.reason.startswith(f"limit: other error at {LAUNCH_LIMIT + 1:,}: ")
    assert "RuntimeError: invalid configuration argument" in limit.reason
    assert "toys.py" in limit.reason
    assert not [one for one in limit.outcomes if one.verdict is Verdict.OUT_OF_MEMORY]


def test_p03_the_fake_device_holds_88_and_is_safe_at_85():
    limit = limit_of(mlp(), FakeMemoryDevice(jitter=0.0))
    assert (limit.min_batch, limit.raw_max, limit.safe_max) == (1, 88, 85)
    assert limit.evidence == "measured"


@pytest.mark.parametrize("seed", range(5))
def test_p03_the_safe_maximum_of_the_fake_device_survives_a_thousand_steps(seed):
    device = FakeMemoryDevice(seed=seed)
    limit = limit_of(mlp(), device)
    assert 78 <= limit.safe_max <= 85 <= limit.raw_max
    for _ in range(1000):
        device.take(limit.safe_max)


def test_p03_what_failed_trials_leave_behind_is_noticed_and_said():
    limit = limit_of(mlp(), FakeMemoryDevice(jitter=0.0, isolated=False))
    assert limit.raw_max < 88
    assert limit.evidence == "stopped-at"
    assert any("isolate the trials" in note for note in limit.notes)


def test_the_hosts_memory_ends_the_search_before_the_host_does(monkeypatch):
    if resident_bytes() is None:
        pytest.skip("this system does not tell a process's memory")
    # 1 MiB a sample and batch, and what the passes make of it; 400 MiB beyond what there is now.
    most = resident_bytes() + 400 * MIB
    monkeypatch.setattr(trial, "allowed_bytes", lambda *, afresh=False: most)
    workload = mlp(make_batch=lambda size: torch.ones(size, 65_536, 4))
    limit = limit_of(workload)
    assert 2 <= limit.raw_max <= 200  # what else the process holds decides how many
    assert max(limit.peak_memory_bytes.values()) <= most
    assert max(outcome.host_peak_bytes for outcome in limit.outcomes if outcome.steps) <= most
    assert limit.safe_max <= limit.raw_max


def test_a_batch_far_beyond_the_limit_fails_alone(monkeypatch):
    if resident_bytes() is None:
        pytest.skip("this system does not tell a process's memory")
    most = resident_bytes() + 300 * MIB
    monkeypatch.setattr(trial, "allowed_bytes", lambda *, afresh=False: most)
    workload = mlp(make_batch=lambda size: torch.ones(size, 65_536, 4))
    outcome = run_trial(workload, CpuDevice(), 2000, SETTINGS)
    assert outcome.verdict is Verdict.OUT_OF_MEMORY
    assert outcome.steps == 0


def test_a_trial_that_would_take_too_long_ends_early():
    seen = []

    def slow(samples):
        seen.append(samples)
        torch.randn(300, 300) @ torch.randn(300, 300)

    outcome = run_trial(mlp(slow), CpuDevice(), 8, TrialSettings(steps=1000, seconds=1e-6))
    assert outcome.verdict is Verdict.TOO_SLOW
    assert len(seen) == 1


def test_a_slow_first_step_is_not_taken_for_all(monkeypatch):
    now_s = [0.0]

    def work(samples):
        now_s[0] += 1.0 if now_s[0] else 100.0

    monkeypatch.setattr(trial.time, "perf_counter", lambda: now_s[0])
    outcome = run_trial(mlp(work), CpuDevice(), 8, TrialSettings(seconds=150))
    assert outcome.fits
    assert outcome.seconds == pytest.approx(100 + SETTINGS.total_steps - 1)


def test_p08_batchnorm_on_single_values_needs_two_samples_and_that_is_no_matter_of_memory():
    limit = limit_of(normed(dataset_size=1201, global_batch=4))
    assert (limit.min_batch, limit.raw_max) == (2, 4)
    assert limit.outcomes[0].verdict is Verdict.TOO_SMALL
    assert "Expected more than 1 value per channel" in limit.outcomes[0].message
    assert limit.reason == "limit: 4, the global batch"


def test_what_was_found_goes_into_a_profile():
    limit = limit_of(mlp(), FakeMemoryDevice(jitter=0.0))
    profile = WorkloadProfile(
        "mlp",
        "fake",
        (BatchLatency(1, 0.1, 0.2),),
        max_batch=limit.max_batch,
        max_batch_evidence=limit.evidence,
        min_batch=limit.min_batch,
        peak_memory_bytes=limit.peak_memory_bytes,
        notes=limit.notes,
    )
    assert profile.max_batch == 85


def test_bounds_come_from_the_workload_and_the_machine():
    bounds = bounds_of(mlp(global_batch=64, dataset_size=100), CpuDevice(), 32)
    assert (bounds.global_batch, bounds.dataset_size, bounds.user) == (64, 100, 32)
    assert bounds.most == 32
    if allowed_bytes() is not None:
        assert bounds.memory_bytes == bounds.host_memory_bytes
    assert bounds_of(mlp(), FakeMemoryDevice()) == Bounds(
        memory_bytes=1000, host_memory_bytes=pytest.approx(allowed_bytes(), rel=0.5)
    )
