from dataclasses import replace

import pytest

from srifty.core import GradientSync, Job, Limits, Overheads
from srifty.errors import InputError
from tests.builders import make_job, make_profile


def test_profile_for_a_gpu():
    job = make_job(make_profile("A"), make_profile("B"))
    assert job.profile_for("B").gpu == "B"
    assert job.profile_for("C") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"global_batch": 0}, "global_batch must be a whole number of at least 1, not 0"),
        ({"global_batch": 64.0}, "global_batch must be a whole number"),
        ({"global_batch": 10**30}, "global_batch must be at most 1,000,000,000"),
        ({"iterations": -5}, "iterations must be a whole number of at least 1, not -5"),
        ({"extra_usd_per_hour": -0.1}, "extra_usd_per_hour must be 0 or more"),
        ({"extra_usd_per_hour": float("inf")}, "extra_usd_per_hour must be at most"),
        ({"profiles": ()}, "at least one workload profile"),
        ({"profiles": (make_profile("A"),) * 2}, "one profile per GPU model, but has A, A"),
        (
            {"profiles": (make_profile("A"), replace(make_profile("B"), workload="other"))},
            "one workload, not of other, toy",
        ),
    ],
)
def test_jobs_refused(change, words):
    fields = {"name": "toy", "profiles": (make_profile(),), "global_batch": 64, "iterations": 10}
    with pytest.raises(InputError) as caught:
        Job(**fields | change)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"deadline_s": 0.0}, "deadline must be above 0"),
        ({"deadline_s": float("inf")}, "deadline must lie between"),
        ({"budget_usd": -1.0}, "budget_usd must be above 0"),
        ({"confidence": 0.49}, "confidence must lie between 0.5"),
        ({"confidence": 1.0}, "and 1 (exclusive), not 1.0"),
        ({"confidence": float("nan")}, "confidence must lie"),
    ],
)
def test_limits_refused(change, words):
    with pytest.raises(InputError) as caught:
        Limits(**change)
    assert words in str(caught.value)


@pytest.mark.parametrize("field", ["launch_s", "setup_s", "restore_s", "evaluation_s"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_overheads_refused(field, value):
    with pytest.raises(InputError, match=f"overheads: {field} must be"):
        Overheads(**{field: value})


def test_overheads_count_whole_evaluations_and_checkpoints():
    overheads = Overheads(
        launch_s=100,
        setup_s=10,
        evaluation_every=30,
        evaluation_s=5,
        checkpoint_every=50,
        checkpoint_s=1,
    )
    assert overheads.billed_s(100) == 10 + 3 * 5 + 2 * 1  # the launch is not billed
    assert overheads.billed_s(29) == 10
    assert Overheads(setup_s=7).billed_s(10**6) == 7


@pytest.mark.parametrize(
    "change", [{"bucket_bytes": 0}, {"first_bucket_bytes": -1}, {"slots": 0}, {"slots": 1.5}]
)
def test_gradient_sync_refused(change):
    with pytest.raises(InputError, match="gradient_sync: "):
        GradientSync(**change)
    assert GradientSync(slots=None).slots is None
