import pytest

from srifty.catalog import builtin_billing_rules
from srifty.catalog.billing import BillLine, DiskUsage, VmUsage, disk_line, rule_for, vm_line
from srifty.core import Market
from srifty.core.billing import PER_SECOND, UNBILLED, BillingRule

RULE = BillingRule("toy", "2020-01-01", granularity_s=60.0, minimum_s=600.0, spot_free_s=3600.0,
                   disk_usd_per_gb_month=0.73)  # fmt: skip


def usage(running_s, stopped_s=None, market=Market.SPOT, taken_back=False):
    return VmUsage("vm", market, 3.6, running_s, stopped_s, taken_back)


@pytest.mark.parametrize(
    ("vm", "billed_s"),
    [
        (usage(None), 0),  # it never ran
        (usage(100.0, 1300.0), 1200),
        (usage(100.0, 1301.0), 1260),  # rounded up
        (usage(100.0, 160.0), 600),  # the least
        (usage(100.0), 900),  # it runs still: until now
        (usage(100.0, 1300.0, taken_back=True), 0),  # within the free time of spot
        (usage(100.0, 1300.0, Market.ON_DEMAND, taken_back=True), 1200),
        (usage(0.0, 3600.0, taken_back=True), 3600),  # not within it
    ],
)
def test_a_vm_is_billed_from_running_to_stop(vm, billed_s):
    line = vm_line(vm, RULE, now_s=1000.0)
    assert line == BillLine("vm", billed_s, pytest.approx(billed_s / 1000))


def test_a_vm_that_was_stopped_and_started_is_two_usages():
    lines = [vm_line(usage(0.0, 600.0), RULE, 1e6), vm_line(usage(9000.0, 9600.0), RULE, 1e6)]
    assert sum(line.usd for line in lines) == pytest.approx(1.2)


@pytest.mark.parametrize(("deleted_s", "hours"), [(None, 100.0), (36_000.0, 10.0)])
def test_a_disk_is_billed_for_its_whole_life(deleted_s, hours):
    line = disk_line(DiskUsage("disk", 10.0, 0.0, deleted_s), RULE, now_s=360_000.0)
    assert line.usd == pytest.approx(10 * 0.73 * hours / 730)
    assert line.billed_s == hours * 3600


def test_the_newest_rule_of_a_date_counts(monkeypatch):
    old = BillingRule("toy", "2010-01-01", granularity_s=3600.0)
    monkeypatch.setattr("srifty.catalog.billing.builtin_billing_rules", lambda: (RULE, old))
    assert rule_for("toy") is RULE
    assert rule_for("toy", "2019-12-31") is old
    assert rule_for("toy", "2020-01-01") is RULE
    assert rule_for("toy", "2009-12-31") is PER_SECOND


def test_rules_of_providers():
    assert rule_for("own") is UNBILLED
    assert rule_for("nobody") is PER_SECOND
    assert rule_for("aws") in builtin_billing_rules()
    assert (rule_for("aws").minimum_s, rule_for("aws").granularity_s) == (60.0, 1.0)
