"""E09: quotas in vCPUs, per family and per market."""

import pytest

from .jobs import counts, has, plan, profile, write_case

POOLS = {"spot G": 120, "on-demand G": 32, "on-demand P": 64}
VCPUS = {"g4dn.xlarge": 4, "g4dn.12xlarge": 48, "g3.8xlarge": 32, "g4dn.8xlarge": 32,
         "p3.2xlarge": 8, "p3.16xlarge": 64}  # fmt: skip


def job(tmp_path, market, *names, global_batch, pools=POOLS):
    offers = {
        "markets": [market],
        "quota": dict.fromkeys(names, "vcpus"),
        "vcpu_quota": pools,
        "prices": {name: {market: 1.0} for name in names},
    }
    # Nothing is exchanged and any batch may be used: the more GPUs, the faster.
    return write_case(
        tmp_path,
        offers,
        profile("T4", max_batch=1024),
        profile("M60", max_batch=1024),
        profile("V100", max_batch=1024),
        global_batch=global_batch,
        minimize="time",
        batches="any",
    )


def most(tmp_path, market, *names, global_batch, pools=POOLS):
    """The plan of most VMs, and the whole answer."""
    document = plan(
        job(tmp_path, market, *names, global_batch=global_batch, pools=pools), "--top", "100"
    )
    for each in (*document["ranking"], *document["front"]):
        used = {}
        for (name, where), count in counts(each).items():
            pool = f"{where} {name[0].upper()}"
            used[pool] = used.get(pool, 0) + count * VCPUS[name]
        assert all(vcpus <= pools[pool] for pool, vcpus in used.items())
    return counts(document["plan"]), document


def test_thirty_spot_vms_of_four_vcpus(tmp_path):
    found, document = most(tmp_path, "spot", "g4dn.xlarge", global_batch=930)
    assert found == {("g4dn.xlarge", "spot"): 30}
    assert "The quota spot G is used up: 120 of 120 vCPUs." in document["warnings"]
    found, _ = most(
        tmp_path, "spot", "g4dn.xlarge", global_batch=930, pools=POOLS | {"spot G": 124}
    )
    assert found == {("g4dn.xlarge", "spot"): 31}


def test_how_quotas_were_read_is_said(tmp_path):
    _, document = most(tmp_path, "spot", "g4dn.xlarge", global_batch=930)
    assert has(
        document["assumptions"],
        "Quotas in vCPUs, shared by the types of a family: spot G 120, on-demand G 32",
        "others are in VMs",
    )
    assert has(document["assumptions"], "No offered type counts against: on-demand G, on-demand P.")


def test_no_vm_of_48_vcpus_fits_into_32_and_the_quota_is_named(tmp_path):
    path = job(tmp_path, "on-demand", "g4dn.12xlarge", global_batch=64)
    document = plan(path, code=3)
    assert document["plan"] is None
    reason = next(r for r in document["reasons"] if r["subject"] == "on-demand G")
    assert (reason["kind"], reason["nearest"]) == ("quota", 48)
    assert "allows 32 vCPUs, but one g4dn.12xlarge takes 48" in reason["message"]
    enough = plan(path, "--set", "offers.vcpu_quota={on-demand G: 48}")
    assert counts(enough["plan"]) == {("g4dn.12xlarge", "on-demand"): 1}


def test_one_of_two_types_that_share_a_pool_not_one_of_each(tmp_path):
    found, document = most(tmp_path, "on-demand", "g3.8xlarge", "g4dn.8xlarge", global_batch=64)
    assert sum(found.values()) == 1
    seen = [counts(each) for each in document["ranking"]]
    assert {("g3.8xlarge", "on-demand"): 1} in seen
    assert {("g4dn.8xlarge", "on-demand"): 1} in seen
    assert all(len(each) == 1 for each in seen)
    assert document["proved_optimal"]


def test_the_p_pool_holds_one_large_or_eight_small(tmp_path):
    found, _ = most(tmp_path, "on-demand", "p3.16xlarge", global_batch=64)
    assert found == {("p3.16xlarge", "on-demand"): 1}
    found, _ = most(tmp_path, "on-demand", "p3.2xlarge", global_batch=64)
    assert found == {("p3.2xlarge", "on-demand"): 8}
    found, document = most(tmp_path, "on-demand", "p3.2xlarge", "p3.16xlarge", global_batch=64)
    assert found in ({("p3.16xlarge", "on-demand"): 1}, {("p3.2xlarge", "on-demand"): 8})
    assert all(len(counts(each)) == 1 for each in document["ranking"])


def test_markets_are_separate_pools(tmp_path):
    path = job(tmp_path, "spot", "g4dn.xlarge", global_batch=960)
    both = plan(
        path, "--set", "offers.markets=[on-demand, spot]",
        "--set", "offers.prices={g4dn.xlarge: {spot: 1.0, on-demand: 2.0}}",
    )["plan"]  # fmt: skip
    assert counts(both) == {("g4dn.xlarge", "spot"): 30, ("g4dn.xlarge", "on-demand"): 2 + 6}


@pytest.mark.parametrize(("vms", "expected"), [(10, 10), (40, 30)])
def test_the_smaller_of_vms_and_vcpus_binds(tmp_path, vms, expected):
    path = job(tmp_path, "spot", "g4dn.xlarge", global_batch=930)
    document = plan(path, "--set", f"offers.quota={{g4dn.xlarge: {vms}}}")
    assert counts(document["plan"]) == {("g4dn.xlarge", "spot"): expected}
    quota = f"g4dn.xlarge (spot) is used up: {vms} of {vms} VMs" if vms == 10 else "spot G is used"
    assert has(document["warnings"], quota)


def test_a_limit_that_more_vcpus_would_meet_says_how_many(tmp_path):
    path = job(tmp_path, "spot", "g4dn.xlarge", global_batch=930)
    wider = plan(path, "--set", "offers.vcpu_quota={spot G: 124}")["plan"]["time_s"]["mean"]
    tight = ("--set", f"deadline={wider + 0.01:.3f}s", "--confidence", "0.5")
    document = plan(path, *tight, code=3)
    reason = next(r for r in document["reasons"] if r["kind"] == "quota")
    assert (reason["subject"], reason["nearest"]) == ("spot G", 124)
    assert plan(path, *tight, "--set", "offers.vcpu_quota={spot G: 124}")["plan"]
