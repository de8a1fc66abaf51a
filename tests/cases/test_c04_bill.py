"""C04: what is and is not on the bill, and that every amount says what it is."""

import re

import pytest

from srifty.catalog.billing import DiskUsage, VmUsage, bill, rule_for
from srifty.core import Market
from tests.command import srifty

from .jobs import plan, profile, write_case

AWS = rule_for("aws")


def test_the_bill_of_the_case_by_hand():
    # Launched at 0; 5 of 8 run after 150 s; 20 min of training; stopped for 10 h; deleted.
    stopped = 150 + 20 * 60
    deleted = stopped + 10 * 3600
    vms = [VmUsage(f"vm{i}", Market.ON_DEMAND, 0.526, 150.0, stopped) for i in range(5)]
    vms += [VmUsage(f"failed{i}", Market.ON_DEMAND, 0.526, None) for i in range(3)]
    disk = DiskUsage("disk", 100.0, 0.0, deleted)
    assert AWS.disk_usd_per_gb_month == 0.08
    lines = bill(vms, [disk], AWS, now_s=1e9)
    usd = {line.name: line.usd for line in lines}
    for i in range(5):
        assert usd[f"vm{i}"] == pytest.approx(0.526 / 3)  # 1,200 s of 0.526 an hour
    assert [usd[f"failed{i}"] for i in range(3)] == [0.0] * 3
    # 100 GB for 37,350 s of a month of 730 h.
    assert usd["disk"] == pytest.approx(8.00 * 37_350 / (730 * 3600))
    assert sum(usd.values()) == pytest.approx(5 * 0.526 / 3 + 0.113699, abs=1e-6)


def test_a_hundred_metal_vms_that_never_started_cost_nothing():
    # One real report was charged 880.417 USD for 1 h 7 m 31 s of them.
    vms = [VmUsage("g4dn.metal", Market.ON_DEMAND, 7.824, None) for _ in range(100)]
    assert sum(line.usd for line in bill(vms, [], AWS, now_s=4051.0)) == 0.0


@pytest.fixture(name="job")
def _job(tmp_path):
    offers = {"quota": {"g4dn.xlarge": 2}, "prices": {"g4dn.xlarge": {"on-demand": 0.526}}}
    checkpoints = {"launch": "150s", "checkpoint": {"every": 100, "takes": "5s"}}
    return write_case(
        tmp_path, offers, profile(sample_s=0.01), iterations=1000, overheads=checkpoints
    )


def test_a_plan_counts_launch_and_checkpoints(job):
    # One VM: 1,000 iterations of 64 samples at 10 ms, 10 checkpoints of 5 s; launch is not billed.
    document = plan(job, "--minimize", "cost", "--confidence", "0.5", "--top", "10")
    one = next(p for p in document["ranking"] if p["config"] == "1g4dn.xlarge@64")
    assert one["time_s"]["mean"] == pytest.approx(150 + 640 + 50)
    assert one["cost_usd"]["mean"] == pytest.approx(0.526 * 690 / 3600)
    assert one["usd_per_hour"] == 0.526


def test_every_amount_says_per_hour_or_in_total(job):
    lines = srifty("plan", job, "--set", "budget_usd=5").out.splitlines()
    answer = next(line for line in lines if line.startswith("Ends in "))
    assert re.search(r"for \$[\d.]+ in total", answer)
    rate = next(line for line in lines if "All VMs together cost" in line)
    assert "$0.526 per hour" in rate or "$0.53 per hour" in rate
    headings = [line for line in lines if "configuration" in line and "90 %" in line]
    assert headings
    assert all("cost in total" in line for line in headings)
    row = next(line for line in lines if line.strip().startswith("costs"))
    assert row.strip().startswith("costs in total")
    price = next(line for line in lines if "Price of g4dn.xlarge" in line)
    assert "per hour" in price
    for line in lines:
        if line.strip().startswith("- ") and "$" in line:
            assert re.search("per hour|in total", line), line
