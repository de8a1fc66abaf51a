"""Owned and reserved machines, zones and preferences, through `srifty plan`."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.catalog.skypilot_rows import cells
from tests.command import srifty

from .jobs import counts, has, import_rows, plan, profile, write_case, zones

# A T4 takes 10 ms for a sample, a V100 2 ms; nothing is exchanged.
T4 = profile("T4", sample_s=0.010, max_batch=64)
V100 = profile("V100", sample_s=0.002, max_batch=64)
LAB = {"name": "lab", "gpu": "T4", "gpus": 8, "vcpus": 64, "count": 2, "usd_per_hour": 0}


def in_seconds(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.fixture(name="lab")
def _lab(tmp_path):
    """Two owned machines of 8 T4, and p3.16xlarge (8 V100) on spot at 10 USD an hour."""
    offers = {
        "markets": ["spot"],
        "quota": {"p3.16xlarge": 2},
        "prices": {"p3.16xlarge": {"spot": 10.0}},
        "interruptions": {"p3.16xlarge": "0/h"},
        "owned": [LAB],
    }
    return write_case(tmp_path, offers, T4, V100, global_batch=512, iterations=10_000)


def test_owned_machines_are_used_when_they_are_fast_enough(lab):
    # 32 samples on each of 16 T4: 0.32 s an iteration, a good 53 minutes.
    document = plan(lab, "--set", "deadline=2h")
    assert counts(document["plan"]) == {("lab", "owned"): 2}
    assert document["plan"]["time_s"]["mean"] == pytest.approx(150 + 3200, rel=0.06)
    assert document["plan"]["cost_usd"] == {
        "mean": 0.0, "std": 0.0, "p50": 0.0, "p90": 0.0, "p95": 0.0
    }  # fmt: skip
    assert not has(document["assumptions"], "billed per second")
    assert has(document["assumptions"], "lab (owned): $0.00 per hour, stated in the job")


def test_spot_is_rented_when_owned_machines_are_too_slow(lab):
    document = plan(lab, "--set", "deadline=30m", "--set", "confidence=0.5")
    assert counts(document["plan"]) == {("p3.16xlarge", "spot"): 1}
    chosen = document["plan"]
    # 64 samples on each of 8 V100: 0.128 s an iteration; launching is not billed.
    assert chosen["time_s"]["mean"] == pytest.approx(150 + 1280, rel=0.06)
    billed_s = chosen["time_s"]["mean"] - 150
    assert chosen["cost_usd"]["mean"] == pytest.approx(10.0 * billed_s / 3600)
    # Why not the machines at hand: they need longer, and that is said.
    assert has([m["message"] for m in document["marginals"]], "would save", "2lab (owned)")
    late = next(p for p in document["front"] if ("lab", "owned") in counts(p))
    assert late["success_probability"] < 0.01


def test_owned_machines_are_no_place_for_spot_vms(lab):
    document = plan(lab, "--set", "global_batch=2048", "--top", "100")
    for each in (*document["ranking"], *document["front"]):
        assert len({market for _, market in counts(each)}) == 1


def test_an_hour_of_an_owned_machine_can_have_a_price(lab):
    document = plan(
        lab, "--set", "offers.owned=[{name: lab, gpu: T4, gpus: 8, vcpus: 64, count: 2, "
        "usd_per_hour: 1.5}]",
    )  # fmt: skip
    chosen = document["plan"]
    vms = counts(chosen)["lab", "owned"]
    billed_s = chosen["time_s"]["mean"] - 150
    assert chosen["cost_usd"]["mean"] == pytest.approx(1.5 * vms * billed_s / 3600)


def reservation_job(tmp_path, ends_in_s, usd_per_hour=0.0, on_demand=True, min_batch=64):
    """p3.16xlarge reserved, and the same type on demand at 24 USD an hour."""
    reserved = {"type": "p3.16xlarge", "count": 1, "usd_per_hour": usd_per_hour}
    if ends_in_s is not None:
        reserved["end"] = in_seconds(ends_in_s)
    offers = {"reserved": [reserved]}
    if on_demand:
        offers |= {
            "quota": {"p3.16xlarge": 1},
            "prices": {"p3.16xlarge": {"on-demand": 24.0}},
        }
    # Eight GPUs take it, neither fewer nor more.
    v100 = profile("V100", sample_s=0.002, max_batch=64, min_batch=min_batch)
    return write_case(tmp_path, offers, v100, global_batch=512, iterations=100_000)


@pytest.fixture(name="lasting")
def _lasting(tmp_path):
    """The plan on a reservation without end."""
    return plan(reservation_job(tmp_path, None))["plan"]


def test_a_reservation_that_lasts_is_used_and_sunk_cost_counts_nothing(tmp_path, lasting):
    document = plan(reservation_job(tmp_path, lasting["time_s"]["p90"] + 600))
    assert counts(document["plan"]) == {("p3.16xlarge", "reserved"): 1}
    assert document["plan"]["cost_usd"]["p95"] == 0
    assert has(document["warnings"], "The reservation of p3.16xlarge ends", "after the expected")


def test_a_reservation_is_paid_at_its_price(tmp_path, lasting):
    chosen = plan(reservation_job(tmp_path, None, usd_per_hour=9.0))["plan"]
    assert counts(chosen) == {("p3.16xlarge", "reserved"): 1}
    billed_s = chosen["time_s"]["mean"] - 150
    assert chosen["cost_usd"]["mean"] == pytest.approx(9.0 * billed_s / 3600)


def test_a_reservation_that_ends_before_the_p90_is_not_used_and_named(tmp_path, lasting):
    time_s = lasting["time_s"]
    between = (time_s["mean"] + time_s["p90"]) / 2
    assert time_s["p90"] - time_s["mean"] > 60
    path = reservation_job(tmp_path, between)
    document = plan(path)
    assert counts(document["plan"]) == {("p3.16xlarge", "on-demand"): 1}
    billed_s = document["plan"]["time_s"]["mean"] - 150
    assert document["plan"]["cost_usd"]["mean"] == pytest.approx(24.0 * billed_s / 3600)
    assert has(document["warnings"], "The reservation of p3.16xlarge ends in", "too early", "90%")
    for each in (*document["ranking"], *document["front"]):
        assert ("p3.16xlarge", "reserved") not in counts(each)
    # By the mean it lasts.
    assert counts(plan(path, "--confidence", "0.5")["plan"]) == {("p3.16xlarge", "reserved"): 1}


def test_a_reservation_that_is_too_short_alone_is_joined_by_others(tmp_path, lasting):
    document = plan(reservation_job(tmp_path, lasting["time_s"]["mean"], min_batch=1))
    assert counts(document["plan"]) == {
        ("p3.16xlarge", "reserved"): 1,
        ("p3.16xlarge", "on-demand"): 1,
    }
    billed_s = document["plan"]["time_s"]["mean"] - 150
    assert document["plan"]["cost_usd"]["mean"] == pytest.approx(24.0 * billed_s / 3600)


def test_no_plan_names_the_reservation_and_how_long_it_must_last(tmp_path, lasting):
    document = plan(reservation_job(tmp_path, 600, on_demand=False), code=3)
    (reason,) = [r for r in document["reasons"] if r["kind"] == "reservation"]
    assert reason["nearest"] == pytest.approx(lasting["time_s"]["p90"])
    assert reason["subject"] == "p3.16xlarge (reserved)"
    longer = reservation_job(tmp_path, reason["nearest"] + 30, on_demand=False)
    assert counts(plan(longer)["plan"]) == {("p3.16xlarge", "reserved"): 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"start": "2999-01-01T00:00Z"}, "has not begun"),
        ({"end": "2020-01-01T00:00Z"}, "is over"),
        ({"zone": "use1-az2"}, "lies in use1-az2, not in use1-az1"),
    ],
)
def test_a_reservation_that_is_no_use_is_left_out_and_named(tmp_path, changes, words):
    offers = {
        "zones": ["use1-az1"],
        "quota": {"p3.16xlarge": 1},
        "prices": {"p3.16xlarge": {"on-demand": 24.0}},
        "reserved": [{"type": "p3.16xlarge", "count": 1} | changes],
    }
    document = plan(write_case(tmp_path, offers, V100, global_batch=512))
    assert counts(document["plan"]) == {("p3.16xlarge", "on-demand"): 1}
    assert zones(document["plan"]) == {"use1-az1"}
    assert has(document["warnings"], f"The reservation of p3.16xlarge {words}: not offered.")


def test_markets_may_name_what_is_declared(tmp_path):
    path = reservation_job(tmp_path, None)
    document = plan(path, "--set", "offers.markets=[on-demand, reserved, owned]")
    assert counts(document["plan"]) == {("p3.16xlarge", "reserved"): 1}
    alone = reservation_job(tmp_path, None, on_demand=False)
    assert plan(alone, "--set", "offers.markets=[reserved]")["plan"]


# --- zones ---------------------------------------------------------------------------------------


@pytest.fixture(name="two_zones")
def _two_zones(tmp_path):
    """T4s are cheap in use1-az1, V100s in use1-az2; the job needs both types."""
    import_rows(
        tmp_path, "aws", in_seconds(-60),
        cells("g4dn.12xlarge", "T4", 4, 48, 16384, "3.912", "1.00", "use1-az1"),
        cells("g4dn.12xlarge", "T4", 4, 48, 16384, "3.912", "2.00", "use1-az2"),
        cells("p3.8xlarge", "V100", 4, 32, 16384, "12.24", "5.00", "use1-az1"),
        cells("p3.8xlarge", "V100", 4, 32, 16384, "12.24", "3.00", "use1-az2"),
    )  # fmt: skip
    offers = {
        "markets": ["spot"],
        "quota": {"g4dn.12xlarge": 1, "p3.8xlarge": 1},
        "interruptions": {"g4dn.12xlarge": "0/h", "p3.8xlarge": "0/h"},
    }
    return write_case(
        tmp_path,
        offers,
        profile("T4", max_batch=32, gradient_bytes=40_000),
        profile("V100", max_batch=32, gradient_bytes=40_000),
        global_batch=256,
    )


def test_a_plan_stays_in_one_zone(two_zones):
    document = plan(two_zones, "--top", "50")
    assert zones(document["plan"]) == {"use1-az2"}
    assert document["plan"]["usd_per_hour"] == pytest.approx(2.0 + 3.0)
    for each in (*document["ranking"], *document["front"]):
        assert len(zones(each)) == 1
        assert each["traffic_usd"] == 0
    human = srifty("plan", two_zones).out
    assert "1 x g4dn.12xlarge (spot, use1-az2)" in human


def test_crossing_zones_is_allowed_on_request_and_billed(two_zones):
    cross = ("--set", "offers.allow_cross_zone=true")
    document = plan(two_zones, *cross)
    chosen = document["plan"]
    assert zones(chosen) == {"use1-az1", "use1-az2"}
    assert chosen["usd_per_hour"] == pytest.approx(1.0 + 3.0)
    assert document["proved_optimal"]
    # 2 borders, each 2 s (n-1)/n bytes with n = 8, 0.02 USD per GB, 1,000 iterations.
    traffic = 2 * 2 * 40_000 * 7 / 8 / 1e9 * 0.02 * 1000
    assert chosen["traffic_usd"] == pytest.approx(traffic)
    billed_s = chosen["time_s"]["mean"] - 150
    assert chosen["cost_usd"]["mean"] == pytest.approx(4.0 * billed_s / 3600 + traffic)
    assert has(document["warnings"], "The plan spans use1-az1 and use1-az2", "in total")
    simulated = srifty("simulate", two_zones, *cross, "--config", chosen["config"], "--json")
    assert json.loads(simulated.out)["groups"] == chosen["groups"]
    assert json.loads(simulated.out)["traffic_usd"] == pytest.approx(traffic)


def test_traffic_that_costs_more_than_it_saves_keeps_the_plan_in_one_zone(two_zones):
    document = plan(two_zones, "--set", "offers.allow_cross_zone=true",
                    "--set", "iterations=450000")  # fmt: skip
    assert zones(document["plan"]) == {"use1-az1", "use1-az2"}
    heavy = plan(_with_gradients(two_zones, 400_000_000), "--set", "offers.allow_cross_zone=true")
    assert zones(heavy["plan"]) == {"use1-az2"}


def test_the_traffic_of_a_long_job_by_hand(two_zones):
    path = _with_gradients(two_zones, 400_000_000)
    config = "1g4dn.12xlarge (spot, use1-az1)@128 + 1p3.8xlarge (spot, use1-az2)@128"
    changes = ("--set", "offers.allow_cross_zone=true", "--set", "iterations=450000")
    outcome = srifty("simulate", path, *changes, "--config", config, "--json")
    # 0.4 GB a step, 450,000 steps, n = 8: 2 x 2 x 0.4 x 7/8 x 0.02 = 0.028 USD a step.
    assert json.loads(outcome.out)["traffic_usd"] == pytest.approx(12_600.0)
    human = srifty("simulate", path, *changes, "--config", config).out
    assert "$12,600 in total for bytes that cross zones" in human
    outcome = srifty("simulate", path, "--config", config)
    assert outcome.code == 2
    assert "allow_cross_zone: true" in outcome.err


def _with_gradients(path, size):
    for gpu in ("T4", "V100"):
        document = profile(gpu, max_batch=32, gradient_bytes=size)
        (path.parent / f"{gpu}.json").write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_quota_in_vms_holds_over_the_zones_of_a_region_together(tmp_path):
    offers = {"markets": ["spot"], "quota": {"g4dn.xlarge": 4}, "allow_cross_zone": True}
    path = write_case(tmp_path, offers, profile(max_batch=16), minimize="time")
    document = plan(path, "--top", "100")
    for each in (*document["ranking"], *document["front"]):
        assert counts(each)["g4dn.xlarge", "spot"] <= 4
    assert counts(document["plan"]) == {("g4dn.xlarge", "spot"): 4}
    assert "The quota g4dn.xlarge (spot) is used up: 4 of 4 VMs." in document["warnings"]
    tight = ("--set", "global_batch=128", "--set", "deadline=400s", "--confidence", "0.5")
    reasons = plan(path, *tight, code=3)["reasons"]
    assert has([r["message"] for r in reasons], "A quota of 8 x g4dn.xlarge (spot) would do.")


def test_zones_can_be_named(two_zones):
    document = plan(two_zones, "--set", "offers.zones=[use1-az1]")
    assert zones(document["plan"]) == {"use1-az1"}
    assert document["plan"]["usd_per_hour"] == pytest.approx(1.0 + 5.0)


def test_vms_of_no_zone_go_beside_the_others_and_cross_nothing(two_zones):
    changes = ("--set", "offers.quota={g4dn.12xlarge: {spot: 1}, p3.8xlarge: {on-demand: 1}}",
               "--set", "offers.markets=[spot, on-demand]",
               "--set", "offers.allow_cross_zone=true")  # fmt: skip
    document = plan(two_zones, *changes)
    assert zones(document["plan"]) == {"use1-az1", None}
    assert document["plan"]["traffic_usd"] == 0
    assert "Rent p3.8xlarge in use1-az1, beside the other VMs." in document["warnings"]


# --- preferences ---------------------------------------------------------------------------------


@pytest.fixture(name="preferring")
def _preferring(tmp_path):
    """V100s are preferred, though T4s are cheaper; A100s are offered, but not preferred."""
    offers = {
        "quota": {"p3.2xlarge": 2, "g4dn.xlarge": 8, "p4d.24xlarge": 1},
        "prices": {
            "p3.2xlarge": {"on-demand": 3.06},
            "g4dn.xlarge": {"on-demand": 0.2},
            "p4d.24xlarge": {"on-demand": 1.0},
        },
        "prefer": ["p3.2xlarge", "g4dn.xlarge"],
    }
    a100 = profile("A100-40GB", sample_s=0.001)
    # 2 ms (V100) and 4 ms (T4) a sample; 128 samples.
    t4 = profile("T4", sample_s=0.004)
    return write_case(tmp_path, offers, t4, V100, a100, global_batch=128, iterations=10_000)


def test_the_first_preferred_type_wins_where_it_meets_the_limits_alone(preferring):
    document = plan(preferring, "--set", "deadline=2h")
    assert {name for name, _ in counts(document["plan"])} == {"p3.2xlarge"}


def test_the_first_two_are_joined_where_the_first_is_too_slow(preferring):
    # Two V100 need 1,280 s; with T4s it is faster.
    document = plan(preferring, "--set", "deadline=20m")
    assert {name for name, _ in counts(document["plan"])} <= {"p3.2xlarge", "g4dn.xlarge"}
    assert "g4dn.xlarge" in {name for name, _ in counts(document["plan"])}


def test_types_that_are_not_preferred_are_not_used(preferring):
    document = plan(preferring, "--set", "deadline=500s", code=3)
    assert document["plan"] is None
    without = plan(preferring, "--set", "deadline=500s", "--set", "offers.prefer=[]")
    assert {name for name, _ in counts(without["plan"])} == {"p4d.24xlarge"}
