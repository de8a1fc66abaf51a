"""M04 (planning): "up to" network speeds. M08 (warning): hosts that differ."""

import pytest

from tests.command import srifty

from .jobs import counts, has, plan, profile, write_case


def declared(name, rated, burst=None):
    kind = {"name": name, "gpu": "T4", "gpus": 1, "gpu_memory_gib": 16, "vcpus": 4,
            "rated_gbit_per_s": rated}  # fmt: skip
    return kind if burst is None else kind | {"burst_gbit_per_s": burst}


def job(tmp_path, *kinds, vms=2):
    offers = {
        "quota": {kind["name"]: vms for kind in kinds},
        "types": kinds,
        "prices": {kind["name"]: {"on-demand": 1.0} for kind in kinds},
    }
    t4 = profile(gradient_bytes=100_000_000, max_batch=32)
    return write_case(tmp_path, offers, t4, global_batch=32 * vms, minimize="time")


def test_an_up_to_type_counts_with_its_sustained_speed_and_warns(tmp_path):
    up_to = plan(job(tmp_path, declared("lab.up", 5, 25)))
    sustained = plan(job(tmp_path, declared("lab.up", 5)))
    rated = plan(job(tmp_path, declared("lab.up", 25)))
    assert up_to["plan"]["time_s"] == sustained["plan"]["time_s"]
    assert up_to["plan"]["time_s"]["mean"] > rated["plan"]["time_s"]["mean"]
    words = ("lab.up is rated up to 25 Gbit/s", "the sustained 5 Gbit/s count")
    assert has(up_to["warnings"], *words)
    assert not has(sustained["warnings"], "is rated up to")
    assert not has(rated["warnings"], "is rated up to")
    # A rated speed is no model either: that it stands for a measurement is said each time.
    assert has(rated["assumptions"], "lab.up: not measured", "rated 25 Gbit/s")


def test_one_vm_needs_no_network(tmp_path):
    assert not has(plan(job(tmp_path, declared("lab.up", 5, 25), vms=1))["warnings"], "up to")


def test_a_built_in_up_to_type_warns(tmp_path):
    offers = {"quota": {"g4dn.xlarge": 2}}
    path = write_case(tmp_path, offers, profile(max_batch=32), minimize="time")
    words = "g4dn.xlarge is rated up to 25 Gbit/s"
    assert has(plan(path)["warnings"], words, "sustained 5 Gbit/s")
    assert words in srifty("plan", path).out


def test_placement_is_said(tmp_path):
    path = write_case(tmp_path, {"quota": {"g4dn.xlarge": 2}}, profile(max_batch=32))
    assert has(plan(path)["assumptions"], "assumed to lie in one placement group")
    off = plan(path, "--set", "network={placement_group: off}")
    assert has(off["assumptions"], "Without a placement group EC2 caps a flow at 5 Gbit/s")


@pytest.fixture(name="mixed")
def _mixed(tmp_path):
    """A job that needs both a g5 (AMD host, Ampere) and a g4dn (Intel host, Turing)."""
    offers = {
        "quota": {"g5.12xlarge": 1, "g4dn.12xlarge": 1},
        "prices": {n: {"on-demand": 4.0} for n in ("g5.12xlarge", "g4dn.12xlarge")},
    }
    a10g = profile("A10G", max_batch=32, gradient_bytes=100_000_000)
    t4 = profile("T4", max_batch=32, gradient_bytes=100_000_000)
    return write_case(tmp_path, offers, a10g, t4, global_batch=256)


def test_a_plan_of_amd_and_intel_hosts_warns(mixed):
    document = plan(mixed)
    assert counts(document["plan"]).keys() == {
        ("g5.12xlarge", "on-demand"),
        ("g4dn.12xlarge", "on-demand"),
    }
    assert {g["cpu_vendor"] for g in document["plan"]["groups"]} == {"amd", "intel"}
    assert {g["gpu"] for g in document["plan"]["groups"]} == {"A10G", "T4"}
    assert has(document["warnings"], "CPU vendors differ (amd, intel)", "hang")
    assert has(document["warnings"], "GPU architectures differ (A10G: Ampere, T4: Turing)")
    assert has(document["assumptions"], "slowest type's allreduce time", "world size")
    human = srifty("plan", mixed).out
    assert "CPU vendors differ (amd, intel)" in human
    assert "slowest type's allreduce time" in human
    simulated = srifty("simulate", mixed, "--config", document["plan"]["config"]).out
    assert "CPU vendors differ (amd, intel)" in simulated


def test_a_plan_of_one_type_does_not_warn(mixed):
    document = plan(mixed, "--set", "global_batch=64")
    assert len(counts(document["plan"])) == 1
    assert not has(document["warnings"], "differ")
    assert not has(document["assumptions"], "slowest type")
