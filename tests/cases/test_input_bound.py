"""A loader too slow for a small VM: the plan says so and takes another shape."""

from __future__ import annotations

from tests.cases.jobs import has, plan, profile, write_case
from tests.command import srifty

# One T4 each, with 4 and 16 vCPUs; the larger one costs more per hour.
OFFERS = {
    "region": "us-east-1",
    "markets": ["on-demand"],
    "quota": {"g4dn.xlarge": 1, "g4dn.4xlarge": 1},
}


def shape(answer):
    return [group["instance_type"] for group in answer["plan"]["groups"]]


def test_with_a_fast_loader_the_cheap_shape_wins(tmp_path):
    path = write_case(
        tmp_path, OFFERS, profile(input_samples_per_s_per_vcpu=1000.0), minimize="cost"
    )
    answer = plan(path)
    assert shape(answer) == ["g4dn.xlarge"]
    assert not has(answer["assumptions"] + answer["warnings"], "input-bound")
    assert not has(answer["assumptions"], "assumed free")


def test_a_slow_loader_moves_the_plan_to_a_shape_with_more_vcpus_and_it_says_so(tmp_path):
    # The GPU takes 100 samples/s; 4 vCPUs deliver 20, 16 deliver 80.
    path = write_case(tmp_path, OFFERS, profile(input_samples_per_s_per_vcpu=5.0), minimize="cost")
    answer = plan(path)
    assert shape(answer) == ["g4dn.4xlarge"]
    assert answer["plan"]["parts"]["input_s"] > 0.5
    assert has(answer["warnings"], "input-bound", "80")


def test_for_people_too(tmp_path):
    slow = write_case(tmp_path, OFFERS, profile(input_samples_per_s_per_vcpu=5.0))
    assert "input-bound" in srifty("plan", slow).out
    free = write_case(tmp_path, OFFERS, profile())
    told = srifty("plan", free).out
    assert "input-bound" not in told
    assert "Input is assumed free" in told


def test_a_fast_enough_shape_is_not_called_input_bound(tmp_path):
    # 16 vCPUs deliver 160 samples/s.
    path = write_case(tmp_path, OFFERS, profile(input_samples_per_s_per_vcpu=10.0), minimize="time")
    answer = plan(path)
    assert shape(answer) == ["g4dn.4xlarge"]
    assert not has(answer["warnings"], "input-bound")


def test_without_a_loader_input_is_assumed_free_and_said(tmp_path):
    answer = plan(write_case(tmp_path, OFFERS, profile()))
    assert has(answer["assumptions"], "Input is assumed free")
