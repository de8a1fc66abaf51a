import pytest

from srifty.cloud.ray_backend.launch_failures import refusals
from srifty.core.events import LaunchFailure

CODES = [
    ("InsufficientInstanceCapacity", LaunchFailure.CAPACITY),
    ("VcpuLimitExceeded", LaunchFailure.QUOTA),
    ("UnauthorizedOperation", LaunchFailure.PERMISSION),
    ("SomethingNew", LaunchFailure.UNKNOWN),
]


def status(code, *, at=100.0, available=False):
    why = None if available else {"category": code, "description": "in the cloud's words"}
    record = {
        "node_type": "g3-spot",
        "is_available": available,
        "last_checked_timestamp": at,
        "unavailable_node_information": why,
    }
    summary = {"node_availabilities": {"g3-spot": record}}
    return {"autoscaler_report": {"node_availability_summary": summary}}


@pytest.mark.parametrize(("code", "kind"), CODES)
def test_the_clouds_code_tells_why(code, kind):
    found = refusals(status(code), 50.0)["g3-spot"]
    assert found.kind is kind
    assert "in the cloud's words" in found.text


def test_what_was_reported_before_belongs_to_earlier_requests():
    assert refusals(status("InsufficientInstanceCapacity"), 150.0) == {}


@pytest.mark.parametrize(
    "told",
    [{}, {"autoscaler_report": None}, status("x", available=True), {"autoscaler_report": []}],
)
def test_no_failure_is_no_refusal(told):
    assert refusals(told, 0.0) == {}


def test_rays_own_records_are_understood():
    tracker = pytest.importorskip(
        "ray.autoscaler._private.node_provider_availability_tracker",
        reason="ray is not installed (extra ray)",
    )
    from dataclasses import asdict

    launches = pytest.importorskip("ray.autoscaler.node_launch_exception")
    own = tracker.NodeProviderAvailabilityTracker(timer=lambda: 100.0)
    error = launches.NodeLaunchException("InsufficientInstanceCapacity", "none left", None)
    own.update_node_availability("g3-spot", 99.0, error)
    told = {"autoscaler_report": {"node_availability_summary": asdict(own.summary())}}
    assert refusals(told, 50.0)["g3-spot"].kind is LaunchFailure.CAPACITY
